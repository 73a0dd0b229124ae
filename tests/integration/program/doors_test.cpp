// The doors of the program: the admin listener's token, Unix-domain sockets, origins of pages, limits per address, and
// bypass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr auto token = "0123456789abcdef-t0ken";

std::string change(const std::string& path, const std::string& fields, const std::string& host = "weir.example") {
  return "POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + fields +
         "Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
}

class Doors : public testing::Test {
 protected:
  std::string admin_address(const std::string& host) const { return host + ":" + std::to_string(admin); }
  WeirSettings with_admin(const std::string& listen, const std::string& with_token = "") {
    auto settings = pool_of({&replica});
    settings.admin["listen"] = quoted(listen);
    if (!with_token.empty()) settings.admin["token"] = quoted(with_token);
    return settings;
  }
  Finished command(const std::vector<std::string>& words) const {
    std::vector<std::string> all{weir_program()};
    all.insert(all.end(), words.begin(), words.end());
    return run(all);
  }

  const StreamScript script = vllm_chat(3);
  ScriptedReplica replica{[this](Exchange& exchange) { play(exchange, script); }};
  const std::uint16_t admin = free_port();
  const TemporaryDirectory directory;
};

TEST_F(Doors, OffLoopbackTheAdminListenerNeedsItsToken) {
  WeirUnderTest weir(with_admin(admin_address("0.0.0.0"), token));
  for (const auto* path : {"/metrics", "/-/healthy", "/-/ready", "/api/replicas", "/api/settings", "/nowhere"}) {
    for (const auto& fields : {std::string(), bearer("0123456789abcdef-t0keN"), bearer(""),
                               std::string("Authorization: ") + token + "\r\n"}) {
      const auto refused = fetch(admin, get(path, fields), "GET");
      EXPECT_EQ(refused.status, 401u) << path << ' ' << fields;
      EXPECT_EQ(refused.head.field("www-authenticate"), "Bearer");
      EXPECT_THAT(refused.body, AllOf(HasSubstr("--token-file"), Not(HasSubstr("t0ken"))));
    }
    EXPECT_NE(fetch(admin, get(path, bearer(token)), "GET").status, 401u) << path;
  }
  EXPECT_EQ(fetch(admin, change("/-/reload", "")).status, 401u);
  EXPECT_EQ(fetch(admin, change("/-/reload", bearer("x"))).status, 401u);
  // Under any name that leads here: whoever has the token is no page that DNS rebinding has brought.
  EXPECT_EQ(fetch(admin, change("/-/reload", bearer(token))).status, 200u);
  EXPECT_EQ(weir.metrics().sum("weir_bypass"), 0) << "the metrics listener needs none";
  const auto settings = fetch(admin, get("/api/settings", bearer(token)), "GET").body;
  EXPECT_THAT(settings, AllOf(HasSubstr("\"admin.token\":\"hidden\""), Not(HasSubstr(token))));
  EXPECT_THAT(weir.output(), Not(HasSubstr(token)));
}

TEST_F(Doors, AChangeOfTheTokenHoldsFromTheReloadOn) {
  WeirUnderTest weir(with_admin(admin_address("127.0.0.1"), token));
  weir.rewrite(with_admin(admin_address("127.0.0.1"), "another-token-of-weir"));
  EXPECT_EQ(fetch(admin, change("/-/reload", bearer(token))).status, 200u);
  EXPECT_EQ(fetch(admin, get("/metrics", bearer(token)), "GET").status, 401u);
  EXPECT_EQ(fetch(admin, get("/metrics", bearer("another-token-of-weir")), "GET").status, 200u);
  EXPECT_THAT(weir.output(), AllOf(HasSubstr("admin.token changed"), Not(HasSubstr("another-token"))));
}

TEST_F(Doors, CommandsTakeTheTokenFromAFileOrTheEnvironment) {
  WeirUnderTest weir(with_admin(admin_address("127.0.0.1"), token));
  const auto at = admin_address("127.0.0.1");
  const auto file = (directory.path() / "token").string();
  write_file(file, std::string(token) + "\n");
  const auto without = command({"status", "--admin", at});
  EXPECT_EQ(without.exit.code, 1);
  EXPECT_THAT(without.output, HasSubstr("WEIR_ADMIN_TOKEN"));
  const auto with = command({"status", "--admin", at, "--token-file", file});
  EXPECT_EQ(with.exit.code, 0) << with.output;
  EXPECT_THAT(with.output, HasSubstr("r0"));
  EXPECT_EQ(command({"drain", "r0", "--force", "--admin", at, "--token-file", file}).exit.code, 0);
  EXPECT_EQ(command({"undrain", "r0", "--admin", at, "--token-file", file}).exit.code, 0);
  EXPECT_EQ(command({"check", "--config", weir.settings_file().string(), "--diff", at, "--token-file", file}).exit.code,
            0);
  const auto missing = command({"status", "--admin", at, "--token-file", file + ".none"});
  EXPECT_EQ(missing.exit.code, 1);
  EXPECT_THAT(missing.output, HasSubstr("cannot read a line"));
  ::setenv("WEIR_ADMIN_TOKEN", token, 1);
  EXPECT_EQ(command({"status", "--admin", at}).exit.code, 0);
  ::unsetenv("WEIR_ADMIN_TOKEN");
}

TEST_F(Doors, WithoutATokenNoOverrideLeadsOffLoopback) {
  const auto file = (directory.path() / "weir.toml").string();
  write_file(file, "[[pool]]\nname = 'p'\n[[pool.replica]]\nname = 'r'\nurl = 'http://127.0.0.1:1'\n");
  const auto refused = command({"serve", "--config", file, "--admin-listen", "0.0.0.0:1"});
  EXPECT_EQ(refused.exit.code, 2);
  EXPECT_THAT(refused.output, AllOf(HasSubstr("--admin-listen: 0.0.0.0:1"), HasSubstr("token")));
}

TEST_F(Doors, ClientsAndOperatorsComeByUnixSockets) {
  const auto clients = directory.path() / "weir.sock", operators = directory.path() / "admin.sock";
  auto settings = with_admin("unix:" + operators.string());
  settings.server["listen"] = "[" + quoted("unix:" + clients.string()) + "]";
  {
    WeirUnderTest weir(settings);
    weir.wait_until_said("serving on unix:" + clients.string());
    for (const auto& path : {clients, operators}) {
      struct stat made {};
      ASSERT_EQ(::stat(path.c_str(), &made), 0);
      EXPECT_TRUE(S_ISSOCK(made.st_mode));
      EXPECT_EQ(made.st_mode & 0777u, 0660u);
    }
    HttpClient client(Socket::connect(clients));
    for (int i = 0; i < 2; ++i) {
      const auto got = client.exchange(post(chat, chat_body()));
      EXPECT_EQ(got.status, 200u);
      EXPECT_EQ(got.body, script.body(false));
    }
    const auto status = command({"status", "--admin", "unix:" + operators.string()});
    EXPECT_EQ(status.exit.code, 0) << status.output;
    EXPECT_THAT(status.output, HasSubstr("r0"));
    EXPECT_EQ(command({"drain", "r0", "--force", "--admin", "unix:" + operators.string()}).exit.code, 0);
    EXPECT_EQ(command({"undrain", "r0", "--admin", "unix:" + operators.string()}).exit.code, 0);

    // The sockets stay over a reload, and another weir does not take them.
    weir.process().send(SIGHUP);
    weir.wait_until_said("reload (SIGHUP)");
    EXPECT_EQ(client.exchange(post(chat, chat_body())).status, 200u);
    EXPECT_EQ(HttpClient(Socket::connect(clients)).exchange(post(chat, chat_body())).status, 200u);
    const auto second = command({"serve", "--config", weir.settings_file().string()});
    EXPECT_EQ(second.exit.code, 1);
    EXPECT_THAT(second.output, HasSubstr("the socket is taken by 'weir'"));
    EXPECT_EQ(HttpClient(Socket::connect(clients)).exchange(post(chat, chat_body())).status, 200u);
    EXPECT_EQ(weir.metrics_after(5).sum("weir_requests_total", {{"outcome", "ok"}}), 5);
  }
  EXPECT_FALSE(fs::exists(clients));
  EXPECT_FALSE(fs::exists(operators));
}

TEST_F(Doors, ASocketLeftOverByAKilledWeirIsReplaced) {
  const auto clients = directory.path() / "weir.sock";
  auto settings = pool_of({&replica});
  settings.server["listen"] = "[" + quoted("unix:" + clients.string()) + "]";
  const auto file = directory.path() / "weir.toml";
  write_file(file, "server.listen = 'unix:" + clients.string() +
                       "'\nmetrics.listen = ''\nadmin.listen = ''\nlog.requests = ''\n[[pool]]\nname = "
                       "'p'\n[[pool.replica]]\nname = 'r'\nurl = 'http://127.0.0.1:1'\n");
  {
    Process killed({weir_program(), "serve", "--config", file.string()}, directory.path() / "output");
    const auto deadline = Clock::now() + patience;
    while (read_file(directory.path() / "output").find("serving on unix:") == std::string::npos)
      ASSERT_LT(Clock::now(), deadline);
    killed.send(SIGKILL);
    ASSERT_TRUE(killed.wait(patience));
  }
  ASSERT_TRUE(fs::exists(clients));
  WeirUnderTest weir(settings);
  EXPECT_EQ(HttpClient(Socket::connect(clients)).exchange(post(chat, chat_body())).status, 200u);
}

TEST_F(Doors, AReloadOpensAndClosesUnixSockets) {
  const auto first = directory.path() / "a.sock", second = directory.path() / "b.sock";
  auto settings = pool_of({&replica});
  settings.server["listen"] = "[" + quoted("unix:" + first.string()) + "]";
  WeirUnderTest weir(settings);
  settings.server["listen"] = "[" + quoted("unix:" + second.string()) + "]";
  weir.rewrite(settings);
  weir.process().send(SIGHUP);
  weir.wait_until_said("reload (SIGHUP): server.listen");
  EXPECT_EQ(HttpClient(Socket::connect(second)).exchange(post(chat, chat_body())).status, 200u);
  EXPECT_FALSE(fs::exists(first));
}

TEST_F(Doors, PagesOfTheOriginsThatAreAllowedMayAskAndReadARefusal) {
  const auto keys = directory.path() / "keys.toml";
  write_file(keys, "[[key]]\nname = 'alice'\nsha256 = '" + std::string(64, 'a') + "'\n");
  auto settings = pool_of({&replica});
  settings.server["cors_origins"] = "[\"https://app.example\"]";
  settings.server["api_keys"] = quoted(keys.string());
  WeirUnderTest weir(settings);
  const std::string asks = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n";
  for (const auto& [origin, allowed] :
       {std::pair<std::string, bool>{"https://app.example", true}, {"https://evil.example", false}}) {
    const auto field = "Origin: " + origin + "\r\n";
    const auto preflight = fetch(
        weir.port(), "OPTIONS " + std::string(chat) + " HTTP/1.1\r\nHost: weir\r\n" + field + asks + "\r\n", "OPTIONS");
    const auto refused = fetch(weir.port(), post(chat, chat_body(), field + bearer("no-key")));
    EXPECT_EQ(preflight.status, allowed ? 204u : 403u) << "without a key: a browser sends none here";
    EXPECT_EQ(preflight.head.field("access-control-allow-headers").value_or(""), allowed ? "authorization" : "");
    EXPECT_EQ(refused.status, 401u);
    for (const auto* answer : {&preflight, &refused}) {
      EXPECT_EQ(answer->head.field("access-control-allow-origin").value_or(""), allowed ? origin : "");
      EXPECT_THAT(answer->head.bytes, HasSubstr("Vary: Origin\r\n"));
    }
  }
  EXPECT_EQ(replica.requests().size(), 0u) << "a preflight is weir's to answer";
}

TEST_F(Doors, AnAddressHasSoManyConnections) {
  auto settings = pool_of({&replica});
  settings.limits["connections_per_address"] = "2";
  WeirUnderTest weir(settings);
  HttpClient one(weir.port()), two(weir.port());
  EXPECT_EQ(one.exchange(get("/health"), "GET").status, 200u);
  EXPECT_EQ(two.exchange(get("/health"), "GET").status, 200u);
  HttpClient three(weir.port());
  const auto refused = three.response("GET");
  EXPECT_EQ(refused.status, 503u);
  EXPECT_EQ(refused.head.field("retry-after"), "5");
  weir.metrics_when("the limit to be counted", [](const auto& page) {
    return page.sum("weir_limit_hits_total", {{"limit", "connections_per_address"}}) == 1;
  });
  one.close();
  // Its end is seen by its loop, a moment later.
  const auto deadline = Clock::now() + patience;
  unsigned status = 503;
  while (status != 200 && Clock::now() < deadline) {
    try {
      status = fetch(weir.port(), get("/health"), "GET").status;
    } catch (const PeerGone&) {  // It was turned away before it had sent its request.
    }
  }
  EXPECT_EQ(status, 200u);
}

TEST_F(Doors, ATrustedProxyMayHaveAnyNumberOfThem) {
  auto settings = pool_of({&replica});
  // A client's next request may come while weir ends the one before.
  settings.limits["connections_per_address"] = "2";
  settings.server["trusted_proxies"] = "[\"127.0.0.1\"]";
  WeirUnderTest weir(settings);
  HttpClient one(weir.port()), two(weir.port()), three(weir.port());
  for (auto* client : {&one, &two, &three}) {
    EXPECT_EQ(client->exchange(get("/health", "X-Forwarded-For: 1.2.3.4\r\n"), "GET").status, 200u);
    EXPECT_EQ(client->exchange(post(chat, chat_body(), "X-Forwarded-For: 1.2.3.4\r\n")).status, 200u);
  }
  for (const auto& request : replica.requests()) EXPECT_EQ(request.head.field("x-forwarded-for"), "1.2.3.4, 127.0.0.1");
}

TEST_F(Doors, BypassRelaysAndCountsUntilItIsSwitchedOff) {
  WeirUnderTest weir(with_admin(admin_address("127.0.0.1")));
  const auto at = admin_address("127.0.0.1");
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, script.body(false));
  EXPECT_TRUE(asks_for_usage(replica.requests().back()));

  const auto on = command({"bypass", "on", "--admin", at});
  EXPECT_EQ(on.exit.code, 0) << on.output;
  EXPECT_THAT(on.output, StartsWith("bypass is on"));
  weir.wait_until_said("BYPASS is on");
  EXPECT_EQ(weir.metrics().sum("weir_bypass"), 1);
  EXPECT_THAT(fetch(admin, get("/api/replicas"), "GET").body, HasSubstr("\"bypass\":true"));
  EXPECT_THAT(command({"status", "--admin", at}).output, StartsWith("BYPASS is on"));
  const auto tokens = weir.metrics().sum("weir_output_tokens_total");
  for (int i = 0; i < 3; ++i) {
    const auto got = fetch(weir.port(), post(chat, chat_body()));
    EXPECT_EQ(got.body, script.body(false)) << "usage was not asked for, so that none came";
    EXPECT_EQ(replica.requests().back().body, chat_body()) << "the client's own bytes";
  }
  const auto asked_itself = fetch(weir.port(), post(chat, chat_body_with_usage()));
  EXPECT_EQ(asked_itself.body, script.body(true));
  auto page = weir.metrics_after(5);
  EXPECT_EQ(page.sum("weir_requests_total", {{"outcome", "ok"}}), 5);
  EXPECT_EQ(page.sum("weir_output_tokens_total"), tokens);
  expect_idle(page);

  weir.process().send(SIGHUP);
  weir.wait_until_said("reload (SIGHUP)");
  weir.wait_until_said("BYPASS is on", 2);
  EXPECT_EQ(weir.metrics().sum("weir_bypass"), 1) << "it outlasts a reload";
  EXPECT_EQ(fetch(admin, change("/api/bypass/off", "", at)).body, "{\"bypass\":false,\"changed\":true}\n");
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, script.body(false));
  EXPECT_TRUE(asks_for_usage(replica.requests().back()));
  EXPECT_EQ(weir.metrics().sum("weir_bypass"), 0);
  EXPECT_EQ(fetch(admin, get("/api/bypass/on"), "GET").status, 405u);
  EXPECT_EQ(fetch(admin, change("/api/bypass/on", "", "evil.example")).status, 403u) << "as every change";
}

}  // namespace
}  // namespace weir::integration
