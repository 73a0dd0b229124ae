// Clients have keys: `weir key` makes them, weir asks for them, and a reload changes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include "tests/integration/peers/keys_file.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

class ClientKeys : public testing::Test {
 protected:
  WeirSettings settings_for(const ScriptedReplica& replica) const { return file.asked_by(pool_of({&replica})); }
  static Response ask(const WeirUnderTest& weir, const std::string& key, std::string_view body = chat_body()) {
    return fetch(weir.port(), post(chat, body, key.empty() ? "" : bearer(key)));
  }

  const KeysFile file;
  const TemporaryDirectory directory;
  const StreamScript script = vllm_chat(3);
};

TEST_F(ClientKeys, ThatTheProgramMakesAreGoodAndNothingButTheirHashesIsKept) {
  const auto alice = file.add("alice"),
             bob = file.add("bob", {"--models", "m,n", "--max-in-flight", "3", "--share", "0.5"});
  EXPECT_THAT(alice, StartsWith("weir-"));
  EXPECT_NE(alice, bob);
  EXPECT_THAT(file.text(), AllOf(Not(HasSubstr(alice)), Not(HasSubstr(bob)), HasSubstr("models = [\"m\", \"n\"]"),
                                 HasSubstr("max_in_flight = 3"), HasSubstr("share = 0.5")));
  struct stat status{};
  ASSERT_EQ(::stat(file.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ScriptedReplica replica(plays(script));
  WeirUnderTest weir(settings_for(replica));
  EXPECT_EQ(ask(weir, alice).body, script.body(false));
  weir.log_lines(1);  // Two loops write their lines in any order.
  EXPECT_EQ(ask(weir, bob).body, script.body(false));
  weir.log_lines(2);
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body(), "x-api-key: " + alice + "\r\n")).status, 200u);
  for (const auto& request : replica.requests()) {
    EXPECT_FALSE(request.head.has("authorization"));
    EXPECT_FALSE(request.head.has("x-api-key"));
  }
  const auto lines = weir.log_lines(3);
  EXPECT_EQ(member(lines[0], "key"), "alice");
  EXPECT_EQ(member(lines[1], "key"), "bob");
}

TEST_F(ClientKeys, AreChangedWithoutAGapByReloads) {
  const auto old_key = file.add("alice");
  Event go_on;
  ScriptedReplica replica([&](Exchange& exchange) {
    if (exchange.request().number > 1) return play(exchange, script);
    play_with_pause(exchange, script, 1, go_on);
  });
  WeirUnderTest weir(settings_for(replica));
  HttpClient under_way(weir.port());
  under_way.send(post(chat, chat_body(), bearer(old_key)));
  auto streamed = under_way.response_head();

  const auto new_one = file.add("alice-2");
  EXPECT_EQ(ask(weir, new_one).status, 401u) << "not before the reload";
  weir.process().send(SIGHUP);
  weir.wait_until_said("server.api_keys: key alice-2 added");
  EXPECT_EQ(ask(weir, old_key).status, 200u);
  EXPECT_EQ(ask(weir, new_one).status, 200u);

  file.remove("alice");
  weir.process().send(SIGHUP);
  weir.wait_until_said("server.api_keys: key alice removed");
  EXPECT_EQ(ask(weir, old_key).status, 401u);
  EXPECT_EQ(ask(weir, new_one).status, 200u);
  go_on.set();
  under_way.rest(streamed);
  EXPECT_EQ(streamed.body, script.body(false)) << "what is under way goes on";

  file.remove("alice-2");
  weir.process().send(SIGHUP);
  weir.wait_until_said("no [[key]] in the file");
  EXPECT_EQ(ask(weir, new_one).status, 200u) << "a reload that fails changes nothing";
  EXPECT_THAT(weir.output(), AllOf(Not(HasSubstr(old_key)), Not(HasSubstr(new_one))));
}

TEST_F(ClientKeys, AreNotMadeWhereTheFileWouldBeWrong) {
  file.add("alice");
  const auto before = file.text();
  for (const auto& [more, told] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"alice", "--append", file.path()}, "is taken in line"},
           {{"a b", "--append", file.path()}, "name = \"a b\""},
           {{"bob", "--share", "100", "--append", file.path()}, "share = 100: must be a number from 0.1 to 10"}}) {
    std::vector<std::string> words{"key", "new"};
    words.insert(words.end(), more.begin(), more.end());
    const auto done = run_weir(words);
    EXPECT_EQ(done.exit.code, 2) << done.output;
    EXPECT_THAT(done.output, AllOf(HasSubstr(told), Not(HasSubstr("This is the key"))))
        << "no key is shown that is not good";
    EXPECT_EQ(file.text(), before);
  }
  const auto nowhere = run_weir({"key", "new", "bob", "--append", "/nowhere/keys.toml"});
  EXPECT_EQ(nowhere.exit.code, 1);
  EXPECT_THAT(nowhere.output, AllOf(HasSubstr("/nowhere/keys.toml: No such file"), Not(HasSubstr("weir-"))));
  write_file(file.path(), "[[key]]\nname = 'x'\n");
  const auto wrong = run_weir({"key", "new", "bob", "--append", file.path()});
  EXPECT_EQ(wrong.exit.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr(":1:1: [[key]]: sha256 is missing"));
}

TEST_F(ClientKeys, AreAppendedToAFileWhoseLastLineHasNoEnd) {
  const auto alice = file.add("alice");
  auto text = file.text();
  text.pop_back();
  write_file(file.path(), text);
  const auto bob = file.add("bob");
  ScriptedReplica replica(plays(script));
  WeirUnderTest weir(settings_for(replica));
  for (const auto& key : {alice, bob}) EXPECT_EQ(ask(weir, key).status, 200u);
}

TEST_F(ClientKeys, AreHashedFromStandardInput) {
  const auto key = file.add("alice");
  const auto in = (directory.path() / "key").string();
  const auto hash = [&](const std::string& text) {
    write_file(in, text);
    return run({"/bin/sh", "-c", "exec \"$1\" key hash < \"$2\"", "sh", weir_program(), in});
  };
  const auto digits = first_line(hash(key).output);
  EXPECT_EQ(digits.size(), 64u);
  EXPECT_THAT(file.text(), HasSubstr("sha256 = " + quoted(digits)));
  EXPECT_EQ(first_line(hash(key + "\n").output), digits);
  EXPECT_EQ(first_line(hash(key + "\r\n").output), digits);
  for (const auto& wrong : {std::string(), std::string("\n"), key + " " + key, key + "\n\n", std::string(5000, 'x')}) {
    const auto done = hash(wrong);
    EXPECT_EQ(done.exit.code, 2);
    EXPECT_THAT(done.output, AllOf(StartsWith("weir key hash: standard input must hold one key"), Not(HasSubstr(key))));
  }
}

}  // namespace
}  // namespace weir::integration
