// The prompt's count and its cached part, told by events in any order and number.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
namespace {

std::string anthropic_usage(const std::string& counts) { return R"("usage":{)" + counts + "}"; }
std::string message_start(const std::string& counts) {
  return R"(data: {"type":"message_start","message":{"id":"m",)" + anthropic_usage(counts) + "}}\n\n";
}
std::string message_delta(const std::string& counts) {
  return R"(data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},)" + anthropic_usage(counts) + "}\n\n";
}

/// Returns the members that `dice` picks of the given ones, with counts of 0 to 12.
std::string some_of(std::mt19937& dice, std::initializer_list<const char*> names) {
  std::string text;
  for (const char* const name : names) {
    if (dice() % 3 == 0) continue;
    const std::string value = dice() % 8 == 0 ? "null" : std::to_string(dice() % 13);
    text += (text.empty() ? "\"" : ",\"") + std::string(name) + "\":" + value;
  }
  return text;
}

std::string openai_usage(std::mt19937& dice) {
  const std::string cached = some_of(dice, {"cached_tokens"});
  const std::string counts = some_of(dice, {"prompt_tokens", "completion_tokens"});
  return R"("usage":{)" + counts + (counts.empty() ? "" : ",") + R"("prompt_tokens_details":{)" + cached + "}}";
}

std::string timings(std::mt19937& dice) {
  return R"("timings":{)" + some_of(dice, {"cache_n", "prompt_n", "predicted_n"}) + "}";
}

std::string random_event(Api api, std::mt19937& dice) {
  switch (api) {
    case Api::anthropic_messages: {
      const std::string counts =
          some_of(dice, {"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"});
      return dice() % 2 == 0 ? message_start(counts) : message_delta(counts);
    }
    case Api::openai_chat:
      return chunk(dice() % 2 == 0 ? "" : delta(R"("content":"a")"),
                   "," + (dice() % 2 == 0 ? openai_usage(dice) : timings(dice)));
    case Api::sglang_generate:
      return R"(data: {"text":"a","meta_info":{)" +
             some_of(dice, {"prompt_tokens", "cached_tokens", "completion_tokens"}) + "}}\n\n";
    default:
      return R"(data: {"content":"a","stop":false,)" + timings(dice) + "}\n\n";
  }
}

TEST(PromptCount, IsNeverBelowItsCachedPart) {
  std::mt19937 dice(7);
  int both_known = 0;
  for (const Api api : {anthropic, chat, sglang, llamacpp}) {
    for (int stream = 0; stream < 200; ++stream) {
      Replay replay(options_for(api));
      std::string told;
      for (int event = 0; event < 5; ++event) {
        const std::string next = random_event(api, dice);
        told += next;
        replay.feed(next, ms(event));
        const record::Answer& a = replay.answer();
        if (!a.prompt_tokens || !a.cached_tokens) continue;
        ++both_known;
        ASSERT_LE(*a.cached_tokens, *a.prompt_tokens) << told;
      }
    }
  }
  EXPECT_GT(both_known, 500);
}

TEST(PromptCount, OfAWholeAnswerIsNeverBelowItsCachedPart) {
  std::mt19937 dice(8);
  int both_known = 0;
  for (int answer = 0; answer < 500; ++answer) {
    const bool of_openai = dice() % 2 == 0;
    const std::string usage =
        of_openai ? openai_usage(dice) : anthropic_usage(some_of(dice, {"input_tokens", "cache_read_input_tokens"}));
    const std::string body = R"({"choices":[{"message":{"content":"a"}}],)" + usage + "}";
    Replay replay(options_for(of_openai ? chat : anthropic, BodyForm::json));
    replay.feed(body, ms(1));
    replay.end();
    const record::Answer& a = replay.answer();
    if (!a.prompt_tokens || !a.cached_tokens) continue;
    ++both_known;
    EXPECT_LE(*a.cached_tokens, *a.prompt_tokens) << body;
  }
  EXPECT_GT(both_known, 100);
}

}  // namespace
}  // namespace weir::metrics::measure
