// Secrets are planted wherever a secret can be, requests fail in every way, and then all that weir says is searched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

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
    ::setenv("WEIR_ADMIN_TOKEN", admin_token.c_str(), 1);
  }
  ~Secrets() override { ::unsetenv("WEIR_ADMIN_TOKEN"); }

  std::string path(const std::string& name) const { return (directory.path() / name).string(); }
  std::string admin_address() const { return "127.0.0.1:" + std::to_string(admin); }
  static std::string key_lines(const std::string& name, const std::string& key, const std::string& more) {
    const auto hashed = run({"/bin/sh", "-c", "printf %s \"$1\" | \"$2\" key hash", "sh", key, weir_program()});
    return "[[key]]\nname = '" + name + "'\nsha256 = '" + hashed.output.substr(0, 64) + "'\n" + more;
  }
  static std::vector<std::string> with_environment(std::vector<std::string> command) {
    command.insert(command.begin(), {"/usr/bin/env", "WEIR_TEST_PLANTED=" + secret("variable")});
    return command;
  }

  /// Keeps what weir has said, to be searched.
  std::string hear(const std::string& where, std::string said) {
    EXPECT_FALSE(said.empty()) << where << " says nothing, so it shows nothing";
    EXPECT_THAT(said, Not(HasSubstr(mark))) << where;
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

  const TemporaryDirectory directory;
  const std::string client_key = secret("client"), bobs_key = secret("bob"), admin_token = secret("token");
  const std::string fields = "Authorization: Bearer " + client_key + "\r\nCookie: session=" + secret("cookie") +
                             "\r\nx-custom: " + secret("header") + "\r\n";
  const std::uint16_t admin = free_port();
  const StreamScript script = vllm_chat(3);
  ScriptedReplica good{[this](Exchange& exchange) { play(exchange, script); }};
  ScriptedReplica silent{[](Exchange& exchange) { exchange.wait_for_close(); }};
  ScriptedReplica broken{[](Exchange& exchange) { exchange.reset(); }};
  ScriptedReplica refusing{[](Exchange& exchange) { exchange.send(answer("500 Oops", "{}")); }};
  WeirSettings settings;
};

TEST_F(Secrets, AreInNothingThatWeirSaysWhateverHappens) {
  WeirUnderTest weir(settings, {"/usr/bin/env", "WEIR_TEST_PLANTED=" + secret("variable")});
  const auto body = chat_body(secret("prompt")), whole = whole_chat_body(secret("prompt"));

  for (int i = 0; i < 8; ++i)
    hear("an answer", fetch(weir.port(), post(chat, i % 2 ? body : whole, fields)).head.bytes);
  std::string got_by_replicas;
  for (const auto* replica : {&good, &silent, &broken, &refusing})
    for (const auto& request : replica->requests()) got_by_replicas += request.head.bytes + request.body;
  for (const auto* planted : {"replica", "of-file", "variable", "cookie", "header", "prompt"})
    EXPECT_THAT(got_by_replicas, HasSubstr(secret(planted))) << "it was planted in vain";
  EXPECT_THAT(got_by_replicas, Not(HasSubstr(client_key))) << "the client's key is weir's alone";

  const auto plain = "Authorization: Bearer " + secret("wrong") + "\r\n";
  ask(weir, "401", post(chat, body, plain), 401);
  ask(weir, "401 by x-api-key", post("/v1/messages", body, "x-api-key: " + secret("wrong") + "\r\n"), 401);
  ask(weir, "403", post(chat, body, "Authorization: Bearer " + bobs_key + "\r\n"), 403);
  ask(weir, "404 of a model", post(chat, chat_body(secret("prompt"), "other"), fields), 404);
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

  // Reloads that fail, with secrets in the wrong places.
  const auto reload_with = [&](const std::string& keys_file, const std::string& url, const std::string& told) {
    auto wrong = settings;
    if (!url.empty()) wrong.pools[0].replicas[0].url = url;
    const auto right_keys = read_file(path("keys.toml"));
    if (!keys_file.empty()) write_file(path("keys.toml"), keys_file);
    weir.rewrite(wrong);
    EXPECT_THAT(ask_admin("POST", "/-/reload"), HasSubstr(told));
    EXPECT_THAT(program({"check", "--config", weir.settings_file().string()}), HasSubstr(told));
    write_file(path("keys.toml"), right_keys);
    weir.rewrite(settings);
  };
  reload_with("", "http://user:" + secret("password") + "@127.0.0.1:1", "no user name and no password");
  reload_with("", "user:" + secret("password") + "@127.0.0.1:1", "must begin with");
  reload_with("[[key]]\nname = 'a'\nsha256 = '" + client_key + "'\n", "", "must be the SHA-256");
  reload_with("[[key]]\nname = 'a'\nsha256 = " + client_key + "\n", "", "keys.toml:3");
  reload_with("[[key]]\nname = 'a'\nkey = '" + client_key + "'\n", "", "unknown key");

  // One that succeeds: every secret changes.
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
  const auto hash = keys_file.substr(keys_file.find("sha256 = '") + 10, 64);
  EXPECT_THAT(shown, Not(HasSubstr(hash))) << "nor is a key's whole hash shown";
  EXPECT_THAT(shown, HasSubstr(hash.substr(0, 8) + "..."));
  for (const auto* target : {"/api/replicas", "/api/compare", "/metrics", "/"}) ask_admin("GET", target);
  program({"check", "--config", weir.settings_file().string()});
  program({"status", "--admin", admin_address()});
  program({"status", "--admin", admin_address(), "--json"});
  hear("/metrics", fetch(weir.metrics_port(), get("/metrics"), "GET").body);
  weir.log_lines(17);
  EXPECT_THAT(hear("the request log", weir.log_text()), HasSubstr("\"key\":\"alice\""));
  weir.stop();
  EXPECT_THAT(hear("weir's log", weir.output()), HasSubstr("drain")) << "to its end";
  EXPECT_THAT(weir.output(), Not(HasSubstr(hash)));
  EXPECT_THAT(weir.log_text(), Not(HasSubstr(mark)));
}

}  // namespace
}  // namespace weir::integration
