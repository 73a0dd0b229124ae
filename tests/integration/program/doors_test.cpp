// The doors of the program: the admin listener's token, Unix-domain sockets, limits of connections, and bypass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/tls_bridge.hpp"
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
  WeirSettings listening_at(const std::string& listen, const std::string& with_token = "") {
    auto settings = pool_of({&replica});
    settings.admin["listen"] = quoted(listen);
    if (!with_token.empty()) settings.admin["token"] = quoted(with_token);
    return settings;
  }
  const StreamScript script = vllm_chat(3);
  ScriptedReplica replica{plays(script)};
  const std::uint16_t admin = free_port();
  const TemporaryDirectory directory;
};

TEST_F(Doors, OffLoopbackTheAdminListenerNeedsItsToken) {
  WeirUnderTest weir(listening_at(admin_address("0.0.0.0"), token));
  for (const auto* path : {"/metrics", "/-/healthy", "/-/ready", "/api/live", "/api/settings", "/nowhere"}) {
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

TEST_F(Doors, CommandsTakeTheTokenFromAFileOrTheEnvironment) {
  WeirUnderTest weir(listening_at(admin_address("127.0.0.1"), token));
  const auto at = admin_address("127.0.0.1");
  const auto file = (directory.path() / "token").string();
  write_file(file, std::string(token) + "\n");
  const auto without = run_weir({"status", "--admin", at});
  EXPECT_EQ(without.exit.code, 1);
  EXPECT_THAT(without.output, HasSubstr("WEIR_ADMIN_TOKEN"));
  const auto with = run_weir({"status", "--admin", at, "--token-file", file});
  EXPECT_EQ(with.exit.code, 0) << with.output;
  EXPECT_THAT(with.output, HasSubstr("r0"));
  EXPECT_EQ(run_weir({"drain", "r0", "--force", "--admin", at, "--token-file", file}).exit.code, 0);
  EXPECT_EQ(run_weir({"undrain", "r0", "--admin", at, "--token-file", file}).exit.code, 0);
  EXPECT_EQ(
      run_weir({"check", "--config", weir.settings_file().string(), "--diff", at, "--token-file", file}).exit.code, 0);
  const auto missing = run_weir({"status", "--admin", at, "--token-file", file + ".none"});
  EXPECT_EQ(missing.exit.code, 1);
  EXPECT_THAT(missing.output, HasSubstr("cannot read a line"));
  ::setenv("WEIR_ADMIN_TOKEN", token, 1);
  EXPECT_EQ(run_weir({"status", "--admin", at}).exit.code, 0);
  ::unsetenv("WEIR_ADMIN_TOKEN");
}

TEST_F(Doors, WithoutATokenNoOverrideLeadsOffLoopback) {
  const auto file = (directory.path() / "weir.toml").string();
  write_file(file, "[[pool]]\nname = 'p'\n[[pool.replica]]\nname = 'r'\nurl = 'http://127.0.0.1:1'\n");
  const auto refused = run_weir({"serve", "--config", file, "--admin-listen", "0.0.0.0:1"});
  EXPECT_EQ(refused.exit.code, 2);
  EXPECT_THAT(refused.output, AllOf(HasSubstr("--admin-listen: 0.0.0.0:1"), HasSubstr("token")));
}

TEST_F(Doors, ClientsAndOperatorsComeByUnixSockets) {
  const auto clients = directory.path() / "weir.sock", operators = directory.path() / "admin.sock";
  auto settings = listening_at("unix:" + operators.string());
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
    const auto status = run_weir({"status", "--admin", "unix:" + operators.string()});
    EXPECT_EQ(status.exit.code, 0) << status.output;
    EXPECT_THAT(status.output, HasSubstr("r0"));
    EXPECT_EQ(run_weir({"drain", "r0", "--force", "--admin", "unix:" + operators.string()}).exit.code, 0);
    EXPECT_EQ(run_weir({"undrain", "r0", "--admin", "unix:" + operators.string()}).exit.code, 0);

    // The sockets stay over a reload, and another weir does not take them.
    weir.process().send(SIGHUP);
    weir.wait_until_said("reload (SIGHUP)");
    EXPECT_EQ(client.exchange(post(chat, chat_body())).status, 200u);
    EXPECT_EQ(HttpClient(Socket::connect(clients)).exchange(post(chat, chat_body())).status, 200u);
    const auto second = run_weir({"serve", "--config", weir.settings_file().string()});
    EXPECT_EQ(second.exit.code, 1);
    EXPECT_THAT(second.output, HasSubstr("the socket is taken by another program"));
    EXPECT_EQ(HttpClient(Socket::connect(clients)).exchange(post(chat, chat_body())).status, 200u);
    EXPECT_EQ(weir.metrics_after(5).sum("weir_requests_total", {{"outcome", "ok"}}), 5);
  }
  EXPECT_FALSE(fs::exists(clients));
  EXPECT_FALSE(fs::exists(operators));
}

TEST_F(Doors, AReloadOpensAndClosesUnixSockets) {
  const auto first = directory.path() / "a.sock", second = directory.path() / "b.sock";
  auto settings = pool_of({&replica});
  settings.server["listen"] = "[" + quoted("unix:" + first.string()) + "]";
  WeirUnderTest weir(settings);
  settings.server["listen"] = "[" + quoted("unix:" + second.string()) + "]";
  weir.reload(settings, "reload (SIGHUP): server.listen");
  EXPECT_EQ(HttpClient(Socket::connect(second)).exchange(post(chat, chat_body())).status, 200u);
  EXPECT_FALSE(fs::exists(first));
}

TEST_F(Doors, ClientsBeyondALimitOfConnectionsAreToldSo) {
  const struct {
    const char* limit;
    bool tls, trusted, refuses;
  } rows[]{
      {"connections", false, false, true},
      {"connections", true, false, true},
      {"connections_per_address", false, false, true},
      {"connections_per_address", false, true, false},
  };
  for (const auto& [limit, tls, trusted, refuses] : rows) {
    SCOPED_TRACE(std::string(limit) + (tls ? " with TLS" : "") + (trusted ? " of a trusted proxy" : ""));
    auto settings = pool_of({&replica});
    settings.limits[limit] = "1";
    if (tls) settings = with_tls(settings);
    if (trusted) settings.server["trusted_proxies"] = "[\"127.0.0.1\"]";
    WeirUnderTest weir(settings);
    std::optional<Bridge> bridge;
    if (tls) bridge.emplace(Bridge::Kind::plain_to_tls, weir.port());
    const auto port = tls ? bridge->port() : weir.port();
    HttpClient one(port);
    EXPECT_EQ(one.exchange(get("/health"), "GET").status, 200u);
    HttpClient two(port);
    if (tls) {
      EXPECT_THROW(two.exchange(get("/health"), "GET"), PeerGone);
      EXPECT_EQ(bridge->error(), "tlsv1 alert internal error") << "and no plain text";
    } else if (refuses) {
      const auto refused = two.response("GET");
      EXPECT_EQ(refused.status, 503u);
      EXPECT_EQ(refused.head.field("retry-after"), "5");
    } else {
      EXPECT_EQ(two.exchange(post(chat, chat_body(), "X-Forwarded-For: 1.2.3.4\r\n")).status, 200u);
      EXPECT_EQ(replica.requests().back().head.field("x-forwarded-for"), "1.2.3.4, 127.0.0.1");
    }
    weir.metrics_when("the limit to be counted", [&, limit = limit, hits = refuses ? 1 : 0](const MetricsPage& page) {
      return page.sum("weir_limit_hits_total", {{"limit", limit}}) == hits;
    });
    EXPECT_EQ(one.exchange(get("/health"), "GET").status, 200u) << "the first one stays";
  }
}

TEST_F(Doors, BypassRelaysAndCountsUntilItIsSwitchedOff) {
  WeirUnderTest weir(listening_at(admin_address("127.0.0.1")));
  const auto at = admin_address("127.0.0.1");
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, script.body(false));
  EXPECT_TRUE(asks_for_usage(replica.requests().back()));

  const auto on = run_weir({"bypass", "on", "--admin", at});
  EXPECT_EQ(on.exit.code, 0) << on.output;
  EXPECT_THAT(on.output, StartsWith("bypass is on"));
  weir.wait_until_said("BYPASS is on");
  EXPECT_EQ(weir.metrics().sum("weir_bypass"), 1);
  EXPECT_THAT(fetch(admin, get("/api/live"), "GET").body, HasSubstr("\"bypass\":true"));
  look_until("the bypass in the status", [&] {
    return run_weir({"status", "--admin", at}).output.find("BYPASS is on") != std::string::npos;
  });
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
