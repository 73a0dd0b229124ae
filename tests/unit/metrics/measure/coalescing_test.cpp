// Token events that share a read, of one choice and of several.
#include "metrics/measure/stream_meter.hpp"

#include <gtest/gtest.h>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
namespace {

StreamMeter::Options choices(std::uint32_t n) {
  StreamMeter::Options options = options_for(Api::openai_chat);
  options.choices = n;
  return options;
}

TEST(StreamMeterChoices, WhoseTokensCameInOneReadHaveNoTimeOfGeneration) {
  Replay replay(choices(2));
  replay.feed(says("a", 0) + says("b", 0) + says("c", 1), ms(0));
  replay.feed(says("d", 1) + stop + chunk(delta("", "\"stop\"", 1)) + chunk("", usage(3, 4)) + done, ms(7));
  replay.end();
  EXPECT_EQ(boost::json::serialize(seen(replay).at("choices")), "[[0,7,2,2],[0,7,1,2]]");
}

struct Reads {
  std::uint32_t token_reads, coalesced_reads, coalesced_token_events;
  bool operator==(const Reads&) const = default;
  friend void PrintTo(const Reads& r, std::ostream* out) {
    *out << r.token_reads << " reads, " << r.coalesced_reads << " coalesced with " << r.coalesced_token_events;
  }
};

Reads reads(const Replay& replay) {
  const record::Answer& a = replay.answer();
  return {a.token_reads, a.coalesced_reads, a.coalesced_token_events};
}

TEST(Coalescing, CountsReadsThatBringSeveralTokenEventsOfOneChoice) {
  Replay replay(choices(1));
  replay.feed(says("a"), ms(0));
  EXPECT_EQ(reads(replay), (Reads{1, 0, 0}));
  replay.feed(says("b") + says("c") + says("d"), ms(1));
  EXPECT_EQ(reads(replay), (Reads{2, 1, 3}));
  replay.feed(": note\n\n" + stop, ms(2));
  replay.feed(says("e") + stop, ms(3));
  EXPECT_EQ(reads(replay), (Reads{3, 1, 3}));
  replay.feed(says("f") + says("g"), ms(4));
  EXPECT_EQ(reads(replay), (Reads{4, 2, 5}));
}

TEST(Coalescing, TakesTheSpansOfOneReadForOne) {
  Replay replay(choices(1));
  replay.feed(says("a"), ms(1));
  replay.feed(says("b"), ms(1));
  EXPECT_EQ(reads(replay), (Reads{1, 1, 2}));
}

TEST(Coalescing, IsNotThatSeveralChoicesAdvanceTogether) {
  Replay replay(choices(2));
  replay.feed(says("a", 0) + says("b", 1), ms(0));
  replay.feed(says("c", 0) + says("d", 1), ms(1));
  EXPECT_EQ(reads(replay), (Reads{2, 0, 0}));
  replay.feed(says("e", 0) + says("f", 1) + says("g", 1) + says("h", 0), ms(2));
  EXPECT_EQ(reads(replay), (Reads{3, 1, 4}));
}

}  // namespace
}  // namespace weir::metrics::measure
