// A replica that claims counts which no request can have must not spoil a counter.
#include <gtest/gtest.h>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
namespace {

std::string usage_of(const std::string& count) {
  return R"(,"usage":{"prompt_tokens":)" + count + R"(,"completion_tokens":)" + count + "}";
}

TEST(TokenBelief, LeavesAnImpossibleCountOfAStreamOut) {
  for (const std::string count : {"4294967297", "18446744073709551615"}) {
    Replay replay(options_for(Api::openai_chat));
    feed_by_event(replay, chunk(delta(R"("content":"a")"), usage_of(count)));
    feed_by_event(replay, chunk(delta(R"("content":"b")"), usage_of(count)) + stop + done);
    replay.end();
    EXPECT_EQ(replay.shard.output_tokens.value(), 2U) << count;
    EXPECT_EQ(replay.answer().prompt_tokens, std::nullopt) << count;
    EXPECT_EQ(replay.answer().output_tokens, std::nullopt) << count;
  }
}

TEST(TokenBelief, LeavesAnImpossibleCountOfAnAnswerOut) {
  for (const std::string count : {"4294967297", "9007199254740992"}) {
    Replay replay(options_for(Api::openai_chat, BodyForm::json));
    replay.feed(R"({"choices":[{"message":{"content":"a"},"finish_reason":"stop"}])" + usage_of(count) + "}", ms(1));
    replay.end();
    EXPECT_EQ(replay.shard.output_tokens.value(), 0U) << count;
    EXPECT_EQ(replay.answer().prompt_tokens, std::nullopt) << count;
    EXPECT_EQ(replay.answer().output_tokens, std::nullopt) << count;
  }
}

TEST(TokenBelief, TakesTheGreatestCountThereIs) {
  Replay replay(options_for(Api::openai_chat, BodyForm::json));
  replay.feed(R"({"choices":[{"message":{"content":"a"}}])" + usage_of("4294967296") + "}", ms(1));
  replay.end();
  EXPECT_EQ(replay.answer().output_tokens, most_tokens);
}

}  // namespace
}  // namespace weir::metrics::measure
