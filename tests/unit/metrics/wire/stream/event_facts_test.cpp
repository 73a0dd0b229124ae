#include <gtest/gtest.h>

#include <random>
#include <string>

#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/stream/event_facts.hpp"

namespace weir::metrics::wire {
namespace {

/// Holds an event's data, with readable bytes behind it.
class Padded {
 public:
  explicit Padded(const std::string& data) : bytes_(data + std::string(64, '}')), size_(data.size()) {}
  std::string_view view() const { return std::string_view(bytes_).substr(0, size_); }

 private:
  std::string bytes_;
  std::size_t size_;
};

std::string words(const EventFacts& facts) {
  std::string text = std::string(facts.carries_choice ? "choice " : "") + (facts.marker ? "marker " : "") +
                     (facts.error ? "error " : "") + (facts.broken ? "broken " : "") +
                     (facts.prefill_progress ? "progress " : "") + (facts.usage_only ? "usage " : "");
  for (const ChoiceFacts& one : facts.choices) {
    text += std::to_string(one.index) + (one.token ? "t" : "") + (one.output ? "o" : "") + (one.finished ? "f" : "") +
            std::to_string(one.tokens.value_or(0)) + " ";
  }
  for (const auto& n : {facts.prompt_tokens, facts.cached_tokens, facts.completion_tokens}) {
    text += n ? std::to_string(*n) + " " : "- ";
  }
  return text + std::string(facts.finish_reason) + " " + std::to_string(facts.output_chars);
}

EventFacts parsed(std::string_view data) {
  EventFacts facts;
  read_event(Api::openai_chat, data, facts);
  return facts;
}

const std::string before = R"({"id":"c","choices":[{"index":0,"delta":{"content":")";
const std::string behind = R"("},"finish_reason":null}]})";

/// Returns an EventTemplate that has seen one event.
EventTemplate seen(const std::string& event) {
  const Padded data(event);
  EventTemplate event_template;
  event_template.remember(data.view(), parsed(data.view()));
  return event_template;
}

bool matches(const EventTemplate& event_template, const std::string& event) {
  const Padded data(event);
  EventFacts facts;
  return event_template.match(data.view(), facts);
}

TEST(EventTemplate, KnowsAnEventOfTheSameShape) {
  const EventTemplate event_template = seen(before + "Hello" + behind);
  for (const std::string text : {"", "a", "Hello", R"(\n)", R"(\")", R"(\"usage\":{)", "日本", R"(\ud83d\ude42)"}) {
    const Padded data(before + text + behind);
    EventFacts facts;
    ASSERT_TRUE(event_template.match(data.view(), facts)) << text;
    EXPECT_EQ(words(facts), words(parsed(data.view()))) << text;
  }
}

TEST(EventTemplate, DoesNotTakeStructureForText) {
  const EventTemplate event_template = seen(before + "Hello" + behind);
  for (const std::string text :
       {R"(","tool_calls":[{}],"x":")", R"(a"},"finish_reason":"stop"},{"delta":{"content":"b)", R"(")", R"(\)",
        R"(\\\)", R"(a"b)", "\n", "\xFF", R"(\x)"}) {
    EXPECT_FALSE(matches(event_template, before + text + behind)) << text;
  }
  // An event shorter than both ends, though it begins and ends as they do.
  EXPECT_FALSE(matches(event_template, before + behind.substr(1)));
  EXPECT_FALSE(matches(event_template, before.substr(0, before.size() - 1) + behind));
  EXPECT_FALSE(matches(event_template, ""));
}

TEST(EventTemplate, RemembersOnlyPlainEvents) {
  const std::string choice = R"({"index":0,"delta":{"content":"a"},"finish_reason":null})";
  const std::pair<const char*, std::string> events[] = {
      {"a finish", R"({"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]})"},
      {"usage", R"({"choices":[)" + choice + R"(],"usage":{"completion_tokens":1}})"},
      {"empty usage", R"({"choices":[)" + choice + R"(],"usage":{}})"},
      {"timings", R"({"choices":[)" + choice + R"(],"timings":{"predicted_n":1}})"},
      {"two choices", R"({"choices":[)" + choice + "," + choice + "]}"},
      {"two texts", R"({"choices":[{"delta":{"reasoning":"b","content":"a"}}]})"},
      {"the same text twice", R"({"choices":[{"delta":{"content":"a","content":"b"}}]})"},
      {"a call", R"({"choices":[{"delta":{"content":"a","tool_calls":[{"index":0}]}}]})"},
      {"token ids", R"({"choices":[{"delta":{"content":"a"},"token_ids":[5]}]})"},
      {"progress", R"({"choices":[)" + choice + R"(],"prompt_progress":{}})"},
      {"an error", R"({"choices":[)" + choice + R"(],"error":{}})"},
      {"no text", R"({"choices":[{"delta":{"content":""}}]})"},
      {"broken JSON", R"({"choices":[{"delta":{"content":"a"}})"},
      {"a long shape", R"({"id":")" + std::string(600, 'i') + R"(","choices":[)" + choice + "]}"},
  };
  for (const auto& [what, event] : events) EXPECT_FALSE(matches(seen(event), event)) << what;
}

TEST(EventTemplate, RemembersTheShapesOfTheEngines) {
  for (
      const std::string event :
      {R"({"id":"c","choices":[{"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":null,"token_ids":null}]})",
       R"({"choices":[{"index":3,"delta":{"reasoning_content":"a"},"finish_reason":null,"matched_stop":null}],"usage":null})",
       R"({"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}],"usage":null})",
       R"({"choices":[{"index":0,"text":"a","logprobs":null,"finish_reason":""}],"model":"m"})",
       R"({"choices":[{"finish_reason":null,"index":0,"delta":{"content":"a"}}],"created":1})"}) {
    EXPECT_TRUE(matches(seen(event), event)) << event;
  }
}

TEST(EventTemplate, SaysWhatAFullReadingSaysWhereverItMatches) {
  // Events of fragments that are likely to confuse it meet every EventTemplate that such events leave.
  const std::string fragments[] = {before,
                                   behind,
                                   "\"",
                                   "\\",
                                   "a",
                                   "\\\"",
                                   "\"usage\":{\"completion_tokens\":3}",
                                   "},{",
                                   "\"content\":",
                                   "\"text\":",
                                   "\"finish_reason\":\"stop\"",
                                   ",",
                                   "]}",
                                   "日",
                                   "\xE6",
                                   "{",
                                   "}",
                                   "null"};
  std::mt19937 random(7);
  std::uniform_int_distribution<std::size_t> any(0, std::size(fragments) - 1);
  EventTemplate event_template;
  int matched = 0;
  for (int round = 0; round < 60'000; ++round) {
    std::string event = before;
    for (std::size_t parts = any(random) % 5; parts > 0; --parts) event += fragments[any(random)];
    event += behind;
    const Padded data(event);
    const EventFacts whole = parsed(data.view());
    EventFacts facts;
    if (event_template.match(data.view(), facts)) {
      ++matched;
      ASSERT_EQ(words(facts), words(whole)) << event;
    }
    event_template.remember(data.view(), whole);
  }
  EXPECT_GT(matched, 5'000);
}

}  // namespace
}  // namespace weir::metrics::wire
