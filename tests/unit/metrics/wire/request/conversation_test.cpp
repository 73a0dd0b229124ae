// Which turn of which conversation a request is.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/metrics/wire/request/request_facts.hpp"

namespace weir::metrics::wire {
namespace {

std::string message(const std::string& role, const std::string& text) {
  return R"({"role":")" + role + R"(","content":")" + text + "\"}";
}
std::string chat_of(const std::string& messages, const std::string& model = "m") {
  return R"({"model":")" + model + R"(","messages":[)" + messages + "]}";
}
std::uint64_t conversation(Api api, const std::string& body) { return facts_of(api, body).conversation; }
std::uint64_t conversation(const std::string& messages) { return conversation(chat, chat_of(messages)); }

TEST(Conversation, CountsTheMessagesOfTheUser) {
  struct Case {
    Api api;
    std::string body;
    std::uint32_t turn;
  };
  const Case cases[] = {
      {chat, chat_of(message("user", "a")), 1},
      {chat,
       chat_of(message("system", "s") + "," + message("user", "a") + "," + message("assistant", "b") + "," +
               message("user", "c")),
       2},
      {chat, chat_of(R"({"content":[{"type":"text","text":"a"}],"role":"user"},{"role":"tool","content":"user"})"), 1},
      {chat, chat_of(message("system", "user")), 0},
      {chat, chat_of(""), 0},
      {chat, R"({"messages":null})", 0},
      {chat, "{}", 0},
      {chat, chat_of(message("User", "a") + "," + message("users", "a") + R"(,{"content":"a"},{"role":["user"]})"), 0},
      {chat, chat_of(message(std::string(50, 'u'), "a")), 0},
      {chat, chat_of(R"({"role":"user","role":"system","content":"a"},{"role":"system","role":"user","content":"a"})"),
       1},
      {chat, R"({"messages":[{"role":"user"},{"role":"user"}],"messages":[{"role":"user","content":"a"}]})", 1},
      {anthropic, R"({"system":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
        {"role":"user","content":[{"type":"text","text":"c"}]}]})",
       2},
      {ollama_chat, chat_of(message("user", "a") + "," + message("assistant", "b") + "," + message("user", "c")), 2},
      {responses, R"({"input":"a"})", 1},
      {responses, R"({"input":[{"role":"user","content":"a"},{"type":"function_call","name":"f","arguments":"{}"},
        {"type":"function_call_output","output":"1"},{"role":"user","content":[{"type":"input_text","text":"c"}]}]})",
       2},
      {responses, R"({"input":"a","previous_response_id":"r"})", 0},
      {completions, R"({"prompt":"a"})", 1},
      {completions, R"({"prompt":["a","b"]})", 1},
      {completions, R"({"prompt":[1,2,3]})", 1},
      {completions, R"({"suffix":"a"})", 0},
      {tgi, R"({"inputs":"a"})", 1},
      {sglang, R"({"text":"a"})", 1},
      {sglang, R"({"input_ids":[1]})", 1},
      {llamacpp, R"({"prompt":"a"})", 1},
      {kobold, R"({"memory":"m","prompt":"a"})", 1},
      {ollama_generate, R"({"system":"s","prompt":"a"})", 1},
      {ollama_generate, R"({"prompt":"a","context":[1,2]})", 0},
      {Api::other, R"({"input":"a"})", 0},
  };
  for (const Case& one : cases) EXPECT_EQ(facts_of(one.api, one.body).user_messages, one.turn) << one.body;
}

TEST(Conversation, IsTheSameInAllItsTurns) {
  const std::string opening = message("system", "Be brief.") + "," + message("user", "What is a weir?");
  const std::uint64_t first = conversation(opening);
  EXPECT_NE(first, 0U);
  std::string messages = opening;
  for (int turn = 2; turn < 6; ++turn) {
    messages += "," + message("assistant", "A low dam.") + "," + message("user", "Why " + std::to_string(turn) + "?");
    EXPECT_EQ(conversation(messages), first);
    EXPECT_EQ(facts_of(chat, chat_of(messages)).user_messages, turn);
  }
}

TEST(Conversation, DoesNotDependOnHowTheSameIsWritten) {
  const std::uint64_t first = conversation(message("system", "Be brief é.") + "," + message("user", "What is a weir?"));
  const std::string same[] = {
      R"({"model":"m","messages":[{"role":"system","content":"Be brief \u00e9."},{"role":"user","content":"What is a weir?"}]})",
      R"({"messages":[{"content":"Be brief é.","role":"system"},{"content":"What is a weir?","role":"user"}],"model":"m"})",
      R"({"tools":[{"a":"b"}],"messages":[{"role":"system","content":"Be brief é."},{"role":"user","content":
        [{"type":"text","text":"What is"},{"type":"text","text":" a weir?"}]}],"stream":true,"max_tokens":5,"model":"m","user":"x"})",
      R"({"model":"x","messages":[],"messages":[{"role":"system","content":"Be brief é."},{"role":"user","content":
        "What is a weir?"}],"tools":[{"a":"b"}],"model":"m"})",
  };
  for (const std::string& body : same) EXPECT_EQ(conversation(chat, body), first) << body;
}

TEST(Conversation, OfOthersDiffers) {
  const std::string system = message("system", "s"), user = message("user", "a");
  const std::pair<Api, std::string> bodies[] = {
      {chat, chat_of(system + "," + user)},
      {chat, chat_of(system + "," + user, "other")},
      {chat, chat_of(user)},
      {chat, chat_of(message("system", "t") + "," + user)},
      {chat, chat_of(message("developer", "s") + "," + user)},
      {chat, chat_of(system + "," + message("user", "b"))},
      {chat, chat_of(system + "," + message("user", ""))},
      {chat, chat_of(system + "," + system + "," + user)},
      {chat, chat_of(message("system", "sa") + "," + message("user", ""))},
      {chat, chat_of(system + "," + message("assistant", "x") + "," + user)},
      {chat, R"({"model":"m","system":"s","messages":[{"role":"user","content":"a"}]})"},
      {chat, R"({"model":"m","system":"","messages":[{"role":"user","content":"a"}]})"},
      {chat, R"({"model":"ms","messages":[{"role":"user","content":"a"}]})"},
      {completions, R"({"model":"m","prompt":"b"})"},
      {completions, R"({"model":"m","prompt":["b","c"]})"},
      {completions, R"({"model":"m","prompt":["bc"]})"},
      {tgi, R"({"inputs":"c"})"},
      {kobold, R"({"memory":"s","prompt":"c"})"},
  };
  std::map<std::uint64_t, std::string> seen;
  for (const auto& [api, body] : bodies) {
    const std::uint64_t found = conversation(api, body);
    EXPECT_NE(found, 0U) << body;
    EXPECT_TRUE(seen.emplace(found, body).second) << body << " and " << seen[found];
  }
}

TEST(Conversation, IsTheSameWhereverTheSystemTextStands) {
  const std::string messages = R"("messages":[{"role":"user","content":"a"}])", model = R"("model":"m")";
  const std::string system = R"("system":[{"type":"text","text":"Be "},{"type":"text","text":"brief"}])";
  std::vector<std::string> members{messages, model, system, R"("tools":[{"name":"f"}])"};
  std::ranges::sort(members);
  std::set<std::uint64_t> seen;
  do {
    std::string body = "{";
    for (const std::string& member : members) body += (body.size() > 1 ? "," : "") + member;
    seen.insert(conversation(anthropic, body + "}"));
  } while (std::ranges::next_permutation(members).found);
  EXPECT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen.count(conversation(anthropic, R"({"model":"m","system":"Be brief",)" + messages + "}")), 1U);
}

TEST(Conversation, IsNoneWhereNobodyCanTell) {
  const std::pair<Api, std::string> bodies[] = {
      {chat, chat_of("")},
      {chat, chat_of(message("system", "s"))},
      {chat, R"({"model":"m","messages":[{"role":"user","content":"a"})"},
      {chat, "no JSON"},
      {responses, R"({"input":"a","previous_response_id":"r"})"},
      {completions, R"({"prompt":[1,2]})"},
      {completions, R"({"prompt":["a",7]})"},
      {sglang, R"({"input_ids":[1]})"},
      {ollama_generate, R"({"prompt":"a","context":[1]})"},
      {Api::other, R"({"model":"m","input":"a"})"},
  };
  for (const auto& [api, body] : bodies) EXPECT_EQ(conversation(api, body), 0U) << body;
}

TEST(Conversation, HasAKey) {
  const std::string body = chat_of(message("user", "a"));
  const auto keyed = [&](const ConversationKey* key) {
    RequestInspector inspector(chat, "POST", path_of(chat), key);
    inspector.feed(body);
    return inspector.finish();
  };
  EXPECT_EQ(keyed(nullptr).conversation, 0U);
  EXPECT_EQ(keyed(nullptr).user_messages, 1U);
  const ConversationKey one({1, 2}), other({1, 3});
  EXPECT_NE(keyed(&one).conversation, keyed(&other).conversation);
}

}  // namespace
}  // namespace weir::metrics::wire
