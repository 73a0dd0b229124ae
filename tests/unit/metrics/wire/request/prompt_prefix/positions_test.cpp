// Where the anchors of a prompt stand, which of them two prompts share, and what an anchor holds.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/metrics/wire/request/prompt_prefix/random_bodies.hpp"

namespace weir::metrics::wire::prompt_prefix {
namespace {

TEST(PromptPrefix, IsInTheOrderOfPositionsAndBounded) {
  struct Case {
    std::size_t bytes, message;
    std::size_t most;
  };
  for (const auto& [bytes, message, most] :
       {Case{4096, 1, 64}, Case{4096, 4096, 64}, Case{4096, 300, 64}, Case{4 << 20, 4 << 20, 700},
        Case{4 << 20, 3000, 700}, Case{4 << 20, 200, 700}}) {
    std::string body = R"({"messages":[)";
    while (body.size() < bytes) body += R"({"content":")" + std::string(message, 'a') + "\"},";
    body.back() = ']';
    const Anchors all = anchors(chat, body + "}");
    EXPECT_LE(all.size(), most) << message;
    EXPECT_GT(all.size(), 16U) << message;
    for (std::size_t i = 1; i < all.size(); ++i) ASSERT_LT(all[i - 1].first, all[i].first);
    EXPECT_EQ(keys_of(all).size(), all.size());
  }
}

/// An edit at a random place: what lies before it keeps its anchors, and nothing behind it does.
TEST(PromptPrefix, SharesAnchorsUpToTheFirstDifferenceOnly) {
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::string> texts;
    for (std::size_t n = 1 + below(random, 20); n > 0; --n) texts.push_back(std::string(1 + below(random, 900), 'a'));
    const auto body = [](const std::vector<std::string>& all) {
      json::array messages;
      for (const auto& text : all) messages.push_back(json::object{{"role", "user"}, {"content", text}});
      return json::serialize(json::object{{"model", "m"}, {"messages", messages}});
    };
    std::vector<std::string> edited = texts;
    const std::size_t which = below(random, texts.size()), at = below(random, texts[which].size());
    edited[which][at] = 'b';
    std::uint64_t same = at;  // The position of the first difference.
    for (std::size_t k = 0; k < which; ++k) same += texts[k].size() + 16;
    const Anchors one = anchors(chat, body(texts)), other = anchors(chat, body(edited));
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t k = 0; k < one.size(); ++k) {
      ASSERT_EQ(one[k].first, other[k].first);
      ASSERT_EQ(one[k].second == other[k].second, one[k].first <= same) << one[k].first << " " << same;
    }
    // A shorter prompt with the same beginning has the same ladder.
    edited.resize(which + 1);
    edited[which].resize(at);
    const Anchors cut = anchors(chat, body(edited));
    const auto keys = keys_of(one);
    for (const auto& [position, key] : cut) ASSERT_EQ(keys.contains(key), position <= same) << position << " " << same;
  }
}

TEST(PromptPrefix, FindsTheLastTurn) {
  Random random(4);
  for (int run = 0; run < 4; ++run) {
    json::array messages;
    Anchors before;
    for (int turn = 1; turn <= 60; ++turn) {
      messages.push_back(json::object{{"role", "user"}, {"content", random_text(random)}});
      const Anchors now = anchors(chat, written(random, json::object{{"model", "m"}, {"messages", messages}}));
      ASSERT_TRUE(turn == 1 || keys_of(now).contains(before.back().second)) << turn;
      before = now;
      messages.push_back(json::object{{"role", "assistant"}, {"content", random_text(random)}});
      for (std::size_t tools = below(random, 14); tools > 0; --tools) {
        messages.push_back(json::object{{"role", "tool"}, {"tool_call_id", "c"}, {"content", random_text(random, 50)}});
        messages.push_back(
            json::object{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", random_tree(random)}});
      }
    }
  }
}

TEST(PromptPrefix, BeginsBehindToolsAndSystemText) {
  const std::string rest = R"("messages":[{"role":"user","content":"a"}])";
  const auto of = [&](Api api, const std::string& seed) { return anchors(api, "{" + seed + "," + rest + "}"); };
  EXPECT_EQ(of(anthropic, R"("system":")" + std::string(255, 's') + "\"").size(), 1U);
  const Anchors system = of(anthropic, R"("system":")" + std::string(256, 's') + "\"");
  ASSERT_EQ(system.size(), 2U);
  EXPECT_EQ(system[0].first, 256U);
  EXPECT_EQ(system[1].first, 256U + 1 + 16);
  // Tools count as compact JSON does.
  const std::string tools = R"([{"a":")" + std::string(300, 't') + R"("},[1,true,null],12.5])";
  EXPECT_EQ(of(chat, "\"tools\":" + tools)[0].first, tools.size());
  // The same tools and system text are shared by whatever comes behind.
  const std::string other = R"({"messages":[{"role":"user","content":"b"}],"tools":)" + tools + "}";
  EXPECT_EQ(of(chat, "\"tools\":" + tools)[0], anchors(chat, other)[0]);
  EXPECT_EQ(keys_of(of(chat, "\"tools\":" + tools)).count(anchors(chat, other)[1].second), 0U);
}

TEST(PromptPrefix, HoldsNothingOfTheText) {
  const std::string text = "The weir holds 42 litres, and lets the river through. ";
  std::string all;
  while (all.size() < 4096) all += text;
  const auto prefix = prefix_of(completions, {R"({"prompt":")" + all + "\"}"});
  ASSERT_NE(prefix, nullptr);
  const std::string_view bytes(reinterpret_cast<const char*>(prefix->anchors.data()),
                               prefix->anchors.size() * sizeof(PromptPrefix::Anchor));
  for (std::size_t at = 0; at + 4 <= text.size(); ++at)
    EXPECT_EQ(bytes.find(text.substr(at, 4)), std::string_view::npos) << text.substr(at, 4);
}

}  // namespace
}  // namespace weir::metrics::wire::prompt_prefix
