// Taking the usage event out that only weir asked for, and not a byte more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/metrics/stream_meter_replay.hpp"

namespace weir::metrics::test {
namespace {

StreamMeter::Options stripping() {
  StreamMeter::Options options = options_for(Api::openai_chat);
  options.strip_usage = true;
  return options;
}

TEST(StreamMeterStrip, StripsOnlyAnEventWithoutChoicesAndWithUsage) {
  const std::string kept[] = {
      chunk("", R"(,"usage":null)"),
      chunk("", R"(,"prompt_filter_results":[])"),
      chunk(delta(R"("content":"a")"), usage(3, 1)),
      chunk(delta("", "\"stop\""), usage(3, 4)),
      says(R"(\"choices\":[],\"usage\":{})"),
      R"(data: {"usage":{"prompt_tokens":3}})"
      "\n\n",
      R"(data: {"choices":[],"usage":{"prompt_tokens":3},"error":{"message":"m"}})"
      "\n\n",
      R"(data: {"choices":[],"usage":{"prompt_tokens":3})"
      "\n\n",  // Broken.
      ": choices usage\n\n",
      done,
  };
  for (const std::string& event : kept) EXPECT_EQ(replayed(event, stripping())->forwarded, event);

  const std::string cut[] = {
      chunk("", usage(3, 4)),
      chunk("", usage(3, 4) + R"(,"timings":{"predicted_n":4})"),
      ": note\nid: 7\ndata: {\"usage\":{},\ndata: \"choices\":[]}\n\n",
  };
  for (const std::string& event : cut) {
    EXPECT_EQ(replayed(event, stripping())->forwarded, "");
    EXPECT_EQ(replayed(event + done, stripping())->forwarded, done);
    EXPECT_EQ(replayed(event, options_for(Api::openai_chat))->forwarded, event);
  }
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
  // It cannot be taken out any more, however it was split.
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

TEST(StreamMeterStrip, SendsWhatItHeldIfTheAnswerEndedWhole) {
  EXPECT_EQ(replayed(says("a") + "data: [DONE]", stripping())->forwarded, says("a") + "data: [DONE]");
  EXPECT_EQ(replayed(says("a") + ": x", stripping())->forwarded, says("a") + ": x");
  EXPECT_EQ(replayed(says("a") + "data: {\"cho", stripping())->forwarded, says("a") + "data: {\"cho");
  const std::string usage_event = chunk("", usage(3, 4));
  const std::string unended = usage_event.substr(0, usage_event.size() - 1);
  const auto replay = replayed(says("a") + unended, stripping());
  EXPECT_EQ(replay->forwarded, says("a"));
  EXPECT_EQ(replay->answer().output_tokens, 4U);
}

TEST(StreamMeterStrip, DropsWhatItHeldIfTheAnswerBrokeOff) {
  EXPECT_EQ(replayed(says("a") + "data: [DONE]", stripping(), false)->forwarded, says("a"));
}

}  // namespace
}  // namespace weir::metrics::test
