#include "metrics/record/gap_sketch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::metrics::record {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(GapSketch, PutsWhatIsShorterThanAMicrosecondIntoBinNought) {
  EXPECT_EQ(GapSketch::bin_of(0ns), 0);
  EXPECT_EQ(GapSketch::bin_of(999ns), 0);
  EXPECT_EQ(GapSketch::bin_of(-5s), 0);
  EXPECT_EQ(GapSketch::bin_of(1us), 1);
  EXPECT_EQ(GapSketch::middle_of(0), 0ns);
}

TEST(GapSketch, HasSixtyFourBinsToADoubling) {
  for (unsigned octave = 0; octave < 40; ++octave) {
    const Nanoseconds low = 1us * (std::int64_t{1} << octave);
    EXPECT_EQ(GapSketch::bin_of(low), 1 + 64 * octave) << octave;
    EXPECT_EQ(GapSketch::bin_of(low - 1ns), 64 * octave) << octave;
    EXPECT_EQ(GapSketch::bin_of(low + low / 2), 1 + 64 * octave + 32) << octave;
  }
}

TEST(GapSketch, MiddleOfABinLiesInItAndWithinEightThousandthsOfEverythingThere) {
  // From 100 us on a nanosecond is too small to matter.
  for (std::uint16_t bin = 64 * 7; bin < 64 * 30; ++bin) {
    const Nanoseconds middle = GapSketch::middle_of(bin);
    EXPECT_EQ(GapSketch::bin_of(middle), bin);
    EXPECT_EQ(GapSketch::bin_of(middle + middle / 110), bin + 1) << bin;
    EXPECT_EQ(GapSketch::bin_of(middle - middle / 110), bin - 1) << bin;
  }
}

/// A log may name any bin.
TEST(GapSketch, NoMiddleIsAboveThatOfTheLongestGap) {
  const Nanoseconds longest = GapSketch::middle_of(GapSketch::bin_of(Nanoseconds::max()));
  for (const int bin : {3400, 3500, 65535})
    EXPECT_EQ(GapSketch::middle_of(static_cast<std::uint16_t>(bin)), longest) << bin;
}

TEST(GapSketch, TakesTheLongestDurationThereIs) { EXPECT_LE(GapSketch::bin_of(Nanoseconds::max()), 64 * 57); }

TEST(GapSketch, KeepsItsBinsSortedCountedAndSummed) {
  GapSketch sketch;
  sketch.add(20ms);
  sketch.add(1us, 3);
  sketch.add(20ms + 15us, 2);
  sketch.add(-5ns);
  const std::uint16_t long_gap = GapSketch::bin_of(20ms);
  EXPECT_THAT(sketch.bins(), ElementsAre(GapSketch::Bin{0, 1}, GapSketch::Bin{1, 3}, GapSketch::Bin{long_gap, 3}));
  EXPECT_EQ(sketch.nanoseconds(), 60'033'000U);
  EXPECT_EQ(sketch.count(), 7U);
}

}  // namespace
}  // namespace weir::metrics::record
