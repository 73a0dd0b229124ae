// Secrets are planted wherever a secret can be, requests fail in every way, and then all that weir says is searched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

#include "tests/integration/peers/keys_file.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/tls_bridge.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Every secret has this in it, and nothing else does.
const std::string mark = "pl4nted";

std::string secret(const std::string& what) { return what + '-' + mark + '-' + what; }

class Secrets : public testing::Test {
 protected:
  Secrets() {
    write_file(path("replica.key"), secret("of-file") + "\n");
    write_file(path("keys.toml"), key_lines("alice", client_key, "") + key_lines("bob", bobs_key, "models = ['n']\n"));
    settings = pool_of({&good, &silent, &broken, &refusing});
    auto& replicas = settings.pools[0].replicas;
    replicas[0].more["api_key"] = quoted(secret("replica"));
    replicas[1].more["api_key_file"] = quoted(path("replica.key"));
    replicas[2].more["api_key"] = "\"x-${WEIR_TEST_PLANTED}\"";
    settings.pools[0].more["models"] = "[\"m\", \"n\"]";
    settings.pools[0].more["policy"] = "\"round_robin\"";
    settings.server = {{"api_keys", quoted(path("keys.toml"))}};
    settings.admin = {{"listen", quoted(admin_address())}, {"token", quoted(admin_token)}};
    settings.log = {{"level", "\"trace\""}};
    settings.limits = {{"first_token", "0.3"}, {"whole_answer", "0.3"}, {"request_body", "\"4KiB\""}};
    write_file(path("tls.key"), "# " + secret("pem") + "\n" + tls_key);
    ::setenv("WEIR_ADMIN_TOKEN", admin_token.c_str(), 1);
  }
  ~Secrets() override { ::unsetenv("WEIR_ADMIN_TOKEN"); }

  std::string path(const std::string& name) const { return (directory.path() / name).string(); }
  std::string admin_address() const { return at_loopback(admin); }
  static std::vector<std::string> with_environment(std::vector<std::string> command) {
    command.insert(command.begin(), {"/usr/bin/env", "WEIR_TEST_PLANTED=" + secret("variable")});
    return command;
  }

  /// Keeps what weir has said, to be searched.
  std::string hear(const std::string& where, std::string said) {
    EXPECT_FALSE(said.empty()) << where << " says nothing, so it shows nothing";
    EXPECT_THAT(said, AllOf(Not(HasSubstr(mark)), Not(HasSubstr(private_part)))) << where;
    return said;
  }
  void ask(const WeirUnderTest& weir, const std::string& what, const std::string& bytes, unsigned status,
           const std::string& method = "POST") {
    const auto got = fetch(weir.port(), bytes, method);
    EXPECT_EQ(got.status, status) << what << ": " << got.body;
    hear(what, got.head.bytes + got.body);
  }
  std::string program(std::vector<std::string> words) {
    words.insert(words.begin(), weir_program());
    const auto name = words[1];
    return hear("weir " + name, run(with_environment(std::move(words))).output);
  }
  std::string ask_admin(const std::string& method, const std::string& target) {
    return hear(method + ' ' + target, fetch(admin,
                                             method + ' ' + target + " HTTP/1.1\r\nHost: " + admin_address() +
                                                 "\r\nAuthorization: Bearer " + admin_token +
                                                 "\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
                                                 "Connection: close\r\n\r\n{}",
                                             method)
                                           .body);
  }

  /// Asks weir by every way that it has, drains a replica for a while, and ends weir. Returns all that weir has said in
  /// its own log.
  std::string hear_all(WeirUnderTest& weir, std::size_t log_lines) {
    const auto file = weir.settings_file().string(), at = admin_address();
    for (const auto* target : {"/api/settings", "/api/live", "/api/compare", "/metrics", "/"})
      ask_admin("GET", target);
    hear("/metrics", fetch(weir.metrics_port(), get("/metrics"), "GET").body);
    program({"check", "--config", file});
    program({"check", "--config", file, "--diff", at});
    program({"check", "--config", file, "--probe", "--timeout", "1"});
    program({"check", "--config", file, "--probe", "--timeout", "1", "--json"});
    program({"status", "--admin", at});
    program({"status", "--admin", at, "--json"});
    program({"drain", "r0", "--force", "--admin", at});
    program({"undrain", "r0", "--admin", at});
    for (const auto* turned : {"on", "off"}) program({"bypass", turned, "--admin", at});
    weir.process().send(SIGHUP);
    weir.wait_until_said("reload (SIGHUP): ");
    weir.log_lines(log_lines);
    const auto log = weir.log_file().string();
    for (const auto* form : {"--json", "--markdown"}) program({"compare", log, "--a", "r0", "--b", "r1", form});
    hear("the request log", weir.log_text());
    weir.stop();
    hear("the request log to its end", weir.log_text());
    const auto said = hear("weir's log", weir.output());
    EXPECT_THAT(said, HasSubstr("drain")) << "to its end";
    return said;
  }

  const TemporaryDirectory directory;
  const std::string tls_key = read_file(tls_file("local.key"));
  /// The key's first line has the form of all such keys, and then the number that is this key's own.
  const std::string private_part = tls_key.substr(tls_key.find('\n') + 1 + 48, 16);
  const std::string client_key = secret("client"), bobs_key = secret("bob"), admin_token = secret("token");
  const std::string fields = "Authorization: Bearer " + client_key + "\r\nCookie: session=" + secret("cookie") +
                             "\r\nx-custom: " + secret("header") + "\r\n";
  const std::uint16_t admin = free_port();
  const StreamScript script = vllm_chat(3);
  ScriptedReplica good{plays(script)};
  ScriptedReplica silent{[](Exchange& exchange) { exchange.wait_for_close(); }};
  ScriptedReplica broken{[](Exchange& exchange) { exchange.reset(); }};
  ScriptedReplica refusing{always(answer("500 Oops", "{}"))};
  WeirSettings settings;
};

TEST_F(Secrets, AreInNothingThatWeirSaysWhateverHappens) {
  WeirUnderTest weir(settings, {"/usr/bin/env", "WEIR_TEST_PLANTED=" + secret("variable")});
  const auto body = chat_body(secret("prompt")), whole = whole_chat_body(secret("prompt"));
  const auto asked = std::string(chat) + "?note=" + secret("query");

  for (int i = 0; i < 8; ++i)
    hear("an answer", fetch(weir.port(), post(asked, i % 2 ? body : whole, fields)).head.bytes);
  std::string got_by_replicas;
  for (const auto* replica : {&good, &silent, &broken, &refusing})
    for (const auto& request : replica->requests()) got_by_replicas += request.head.bytes + request.body;
  for (const auto* planted : {"replica", "of-file", "variable", "header", "prompt", "query"})
    EXPECT_THAT(got_by_replicas, HasSubstr(secret(planted))) << "it was planted in vain";
  EXPECT_THAT(got_by_replicas, Not(HasSubstr(client_key))) << "the client's key is weir's alone";

  const auto plain = "Authorization: Bearer " + secret("wrong") + "\r\n";
  ask(weir, "401", post(chat, body, plain), 401);
  ask(weir, "401 by x-api-key", post("/v1/messages", body, "x-api-key: " + secret("wrong") + "\r\n"), 401);
  ask(weir, "403", post(chat, body, "Authorization: Bearer " + bobs_key + "\r\n"), 403);
  ask(weir, "404 of a model", post(chat, chat_body(secret("prompt"), "other"), fields), 404);
  ask(weir, "400 of an authority",
      "POST http://user:" + secret("userinfo") + "@weir" + chat + " HTTP/1.1\r\nHost: weir\r\n" + fields + "\r\n", 400);
  ask(weir, "404 of a path", post("/nowhere?token=" + secret("query"), body, fields), 404);
  ask(weir, "400", "POST / HTTP/1.1\r\nHost: a\r\nHost: " + secret("host") + "\r\n" + fields + "\r\n", 400);
  ask(weir, "405", "TRACE /" + secret("target") + " HTTP/1.1\r\nHost: weir\r\n" + fields + "\r\n", 405, "TRACE");
  ask(weir, "413", post(chat, chat_body(secret("prompt") + std::string(5000, 'x')), fields), 413);
  ask(weir, "the models", get("/v1/models", fields), 200, "GET");
  {
    HttpClient leaves(weir.port());
    leaves.send(post(chat, body, fields).substr(0, 300));
    leaves.reset();
  }

  // Reloads that fail, with secrets in the wrong places. Unit tests of config/ have each sentence.
  const auto refuses = [&](const WeirSettings& wrong, const std::string& told) {
    weir.rewrite(wrong);
    EXPECT_THAT(ask_admin("POST", "/-/reload"), HasSubstr(told));
    EXPECT_THAT(program({"check", "--config", weir.settings_file().string()}), HasSubstr(told));
    weir.rewrite(settings);
  };
  auto wrong = settings;
  wrong.pools[0].replicas[0].url = "http://user:" + secret("password") + "@127.0.0.1:1";
  refuses(wrong, "no user name and no password");
  wrong = settings;
  wrong.server["tls"] = "{ cert = " + quoted(path("tls.key")) + ", key = " + quoted(tls_file("local.pem")) + " }";
  refuses(wrong, "holds no certificate in PEM");
  wrong = settings;
  wrong.shadows = {{"fp8", {{"cand0", good.url()}}, {{"twin", "'r0'"}, {"exclude_keys", quoted(client_key)}}}};
  weir.reload(wrong, "reload (SIGHUP) failed");
  refuses(wrong, "[[shadow]] exclude_keys: must be the SHA-256");
  const auto right_keys = read_file(path("keys.toml"));
  write_file(path("keys.toml"), "[[key]]\nname = 'a'\nsha256 = " + client_key + "\n");
  refuses(settings, "keys.toml:3");
  write_file(path("keys.toml"), right_keys);

  // A reload that succeeds changes every secret.
  auto other = settings;
  other.pools[0].replicas[0].more["api_key"] = quoted(secret("other"));
  write_file(path("keys.toml"), key_lines("alice", secret("alices-other"), "") + key_lines("bob", bobs_key, ""));
  weir.rewrite(other);
  const auto changes = program({"check", "--config", weir.settings_file().string(), "--diff", admin_address()});
  EXPECT_THAT(changes, HasSubstr("key bob: models"));
  const auto changed = ask_admin("POST", "/-/reload");
  EXPECT_THAT(changed, HasSubstr("replica r0: api_key changed"));
  EXPECT_THAT(changed, HasSubstr("server.api_keys: key alice: sha256 "));

  const auto shown = ask_admin("GET", "/api/settings");
  EXPECT_THAT(shown, HasSubstr("\"api_key\":\"hidden\""));
  EXPECT_THAT(shown, HasSubstr("\"admin.token\":\"hidden\""));
  const auto keys_file = read_file(path("keys.toml"));
  const auto hash = keys_file.substr(keys_file.find("sha256 = \"") + 10, 64);
  EXPECT_THAT(shown, Not(HasSubstr(hash))) << "nor is a key's whole hash shown";
  EXPECT_THAT(shown, HasSubstr(hash.substr(0, 8) + "..."));
  EXPECT_THAT(hear_all(weir, 17), Not(HasSubstr(hash)));
  EXPECT_THAT(weir.log_text(), HasSubstr("\"key\":\"alice\""));
}

TEST_F(Secrets, AreInNothingThatWeirSaysWhateverAReplicaSays) {
  // Each of them has a pool of its own, so that it is asked for sure.
  const auto said = secret("said");
  const auto echo = [](const Exchange& exchange) {
    return "{\"error\":{\"message\":\"no such key: " + exchange.request().head.field("authorization").value_or("none") +
           "\"}}";
  };
  ScriptedReplica knows_no_key([&](Exchange& exchange) { exchange.send(answer("401 Unauthorized", echo(exchange))); });
  // The replica repeats what a client asked. The probe, whose report has the message, asks something else.
  ScriptedReplica finds_it_bad([&](Exchange& exchange) {
    const auto asked = exchange.request().body.find(mark) != std::string::npos ? said : "a word";
    exchange.send(answer("400 Bad Request", "{\"error\":{\"message\":\"not allowed: " + asked + "\"}}"));
  });
  ScriptedReplica dies_in_band([&](Exchange& exchange) {
    exchange.send(sse_head() +
                  chunk(script.events[0] + script.events[1] + "data: {\"error\":{\"message\":\"" + said +
                        "\",\"code\":500}}\n\n") +
                  std::string(last_chunk));
  });
  ScriptedReplica adds_a_field([&](Exchange& exchange) {
    exchange.send(answer("200 OK", vllm_whole_chat(3), "application/json", "x-debug: " + said + "\r\n"));
  });
  ScriptedReplica is_no_replica([&](Exchange& exchange) {
    exchange.send("SSH " + said + "\r\n\r\n");
    exchange.close();
  });
  ScriptedReplica has_a_bad_field([&](Exchange& exchange) {
    exchange.send("HTTP/1.1 200 OK\r\nx debug: " + said + "\r\n\r\n");
    exchange.close();
  });
  const std::vector<std::pair<const ScriptedReplica*, unsigned>> all{{&knows_no_key, 401},  {&finds_it_bad, 400},
                                                                     {&dies_in_band, 200},  {&adds_a_field, 200},
                                                                     {&is_no_replica, 502}, {&has_a_bad_field, 502}};
  settings.pools.clear();
  settings.limits.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto n = std::to_string(i);
    ReplicaKeys replica{"r" + n, all[i].first->url(), {{"api_key", quoted(secret("replica" + n))}}};
    settings.pools.push_back({"p" + n, {replica}, {{"models", "[\"m" + n + "\"]"}}});
  }
  write_file(path("keys.toml"), key_lines("alice", client_key, ""));
  WeirUnderTest weir(settings);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto got =
        fetch(weir.port(), post(chat, chat_body(secret("prompt"), "m" + std::to_string(i)), bearer(client_key)));
    EXPECT_EQ(got.status, all[i].second) << i << ": " << got.body;
    // A replica's answer is its client's; weir's answer in its place is not.
    if (got.status == 502)
      hear("502", got.head.bytes + got.body);
    else
      EXPECT_THAT(got.head.bytes + got.body, HasSubstr(mark)) << i << ": it was planted in vain";
  }
  hear_all(weir, all.size());
}

TEST_F(Secrets, AreNotSaidOfAShadow) {
  ScriptedReplica candidate([this](Exchange& exchange) { play(exchange, script); });
  settings.pools[0].replicas.resize(1);
  settings.shadows = {
      {"fp8", {{"cand0", candidate.url(), {{"api_key", quoted(secret("shadow"))}}}}, {{"twin", "\"r0\""}}}};
  WeirUnderTest weir(settings);
  std::size_t asked = 0;
  // weir spares shadows what comes while a loop is late.
  while (asked < 20 && candidate.requests().empty()) {
    EXPECT_EQ(fetch(weir.port(), post(chat, chat_body(secret("prompt")), fields)).status, 200u);
    ++asked;
    const auto page = weir.metrics_when("the shadows' thread to look at the copy", [&](const auto& metrics) {
      return metrics.sum("weir_shadow_requests_total") >= static_cast<double>(asked);
    });
    if (page.sum("weir_shadow_requests_total", {{"result", "sent"}}) > 0) candidate.wait_for_requests(1);
  }
  const auto sent = candidate.only_request();
  EXPECT_EQ(sent.head.field("authorization"), "Bearer " + secret("shadow"));
  EXPECT_FALSE(sent.head.has("cookie"));

  const auto keys_file = read_file(path("keys.toml"));
  const auto hash = keys_file.substr(keys_file.rfind("sha256 = \"") + 10, 64), shown = hash.substr(0, 8) + "...";
  settings.shadows[0].more["exclude_keys"] = quoted(hash);
  weir.rewrite(settings);
  for (const auto& changes : {program({"check", "--config", weir.settings_file().string(), "--diff", admin_address()}),
                              ask_admin("POST", "/-/reload")})
    EXPECT_THAT(changes, AllOf(HasSubstr("exclude_keys [] -> [" + shown + "]"), Not(HasSubstr(hash))));
  EXPECT_THAT(ask_admin("GET", "/api/settings"), AllOf(HasSubstr('[' + shown + ']'), Not(HasSubstr(hash))));
  EXPECT_THAT(hear_all(weir, 2 * asked), Not(HasSubstr(hash)));
}

TEST_F(Secrets, LabelsNeverComeFromAClient) {
  settings.pools[0].replicas.resize(1);
  settings.pools[0].more["models"] = "[]";
  WeirUnderTest weir(settings);
  const auto more = bearer(client_key) + "x-request-id: " + secret("id") + "\r\nx-weir-shadow: " + secret("shadow") +
                    "\r\nOrigin: http://" + mark + ".example\r\n";
  for (const auto& body : {chat_body("Say.", secret("model")), whole_chat_body()})
    EXPECT_EQ(fetch(weir.port(), post(chat, body, more)).status, 200u);
  fetch(weir.port(), get("/" + secret("path"), more), "GET");
  weir.log_lines(3);
  EXPECT_THAT(weir.log_text(), AllOf(HasSubstr(secret("model")), HasSubstr(secret("id"))))
      << "they were planted in vain";
  hear("/metrics", fetch(weir.metrics_port(), get("/metrics"), "GET").body);
  for (const auto* target : {"/metrics", "/api/live"}) ask_admin("GET", target);
  program({"status", "--admin", admin_address()});
}

}  // namespace
}  // namespace weir::integration
