// StreamMeter takes usage out of events, and holds them back meanwhile.
#include "metrics/measure/stream_meter.hpp"

#include <gtest/gtest.h>
#include <regex>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
namespace {

StreamMeter::Options stripping() {
  StreamMeter::Options options = options_for(Api::openai_chat);
  options.strip_usage = true;
  return options;
}

TEST(StreamMeterStrip, HoldsBackAnUnfinishedEventWhenStripping) {
  Replay replay(stripping());
  const std::string event = says("hello");
  replay.feed(says("a") + event.substr(0, 20), ms(0));
  EXPECT_EQ(replay.forwarded, says("a"));
  const auto read = replay.feed(event.substr(20, 5), ms(1));
  EXPECT_EQ(read.events, 0U);
  EXPECT_EQ(replay.forwarded, says("a"));
  replay.feed(event.substr(25) + "data", ms(2));
  EXPECT_EQ(replay.forwarded, says("a") + event);
  EXPECT_TRUE(replay.meter.at_event_boundary());
}

TEST(StreamMeterStrip, LetsAnEventThroughThatIsLongerThanItHolds) {
  // Usage in an event longer than the hold cannot be taken out, however the event is split.
  const std::string filler(StreamMeter::hold_limit, ' ');
  const std::string long_usage = R"(data: {"choices":[],)" + filler + usage(3, 4).substr(1) + "}\n\n";
  const std::string body = says("a") + long_usage + done;
  for (const std::size_t step : {body.size(), std::size_t{1000}, std::size_t{1}}) {
    Replay replay(stripping());
    for (std::size_t at = 0; at < body.size(); at += step) replay.feed(std::string_view(body).substr(at, step), start);
    replay.end();
    EXPECT_EQ(replay.forwarded, body) << step;
    EXPECT_EQ(replay.answer().output_tokens, 4U) << step;
  }

  Replay replay(stripping());
  replay.feed(says("a") + long_usage.substr(0, StreamMeter::hold_limit), start);
  EXPECT_EQ(replay.forwarded, says("a"));
  EXPECT_TRUE(replay.meter.at_event_boundary());
  replay.feed(long_usage.substr(StreamMeter::hold_limit, 1), start);
  EXPECT_EQ(replay.forwarded.size(), says("a").size() + StreamMeter::hold_limit + 1);
  EXPECT_FALSE(replay.meter.at_event_boundary());
}

StreamMeter::Options stripping_all() {
  StreamMeter::Options options = stripping();
  options.strip_continuous_usage = true;
  return options;
}

/// Returns the stream as the engine would have written it unasked, without usage members and the last usage event.
std::string unasked(const std::string& body) {
  static const std::regex event(R"(data: [^\n]*"choices":\[\],"usage":[^\n]*\n\n)");
  static const std::regex member(R"(,"usage":\{[^{}]*(\{[^{}]*\})?[^{}]*\})");
  return std::regex_replace(std::regex_replace(body, event, ""), member, "");
}

TEST(StreamMeterStripContinuous, LeavesWhatTheEngineWouldHaveSentUnasked) {
  const std::string body = sample("vllm_chat_continuous_usage.sse");
  const std::string wanted = unasked(body);
  ASSERT_EQ(wanted.find("usage"), std::string::npos);
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    Replay replay(stripping_all());
    replay.feed(std::string_view(body).substr(0, cut), ms(0));
    replay.feed(std::string_view(body).substr(cut), ms(0));
    replay.end();
    ASSERT_EQ(replay.forwarded, wanted) << "cut at " << cut;
    ASSERT_EQ(replay.answer().output_tokens, 11U);
    ASSERT_EQ(replay.answer().tokens_per_event, TokensPerEvent::wire);
  }
  EXPECT_EQ(replayed(body, stripping_all())->forwarded, wanted) << "byte by byte";
}

TEST(StreamMeterStripContinuous, LeavesAnEventAsItIsThatCannotBeHeldOrMapped) {
  const std::string text(StreamMeter::hold_limit, 'x');
  const std::string long_event = chunk(delta(R"("content":")" + text + "\""), usage(3, 1));
  EXPECT_EQ(replayed(long_event + done, stripping_all())->forwarded, long_event + done);
  const std::string joined = "data: {\"choices\":[{\"index\":0}],\ndata: \"usage\":{\"completion_tokens\":1}}\n\n";
  EXPECT_EQ(replayed(joined + done, stripping_all())->forwarded, joined + done);
}

TEST(StreamMeterStripContinuous, LeavesTheUsageThatLlamaCppTellsUnasked) {
  const std::string body = sample("llamacpp_completions_two_prompts.sse");
  StreamMeter::Options options = stripping_all();
  options.api = Api::openai_completions;
  EXPECT_EQ(replayed(body, options)->forwarded, body);
}

}  // namespace
}  // namespace weir::metrics::measure
