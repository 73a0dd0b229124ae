#include "metrics/compare/pairs/values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>

namespace weir::metrics::compare::pairs {
namespace {

constexpr double endless = std::numeric_limits<double>::infinity();

samples::Sample answer() {
  samples::Sample sample;
  sample.served = sample.stream = true;
  sample.output_tokens = 100;
  sample.ttft = 0.5F;
  sample.tpot = 0.25F;
  sample.e2e = 4;
  return sample;
}

/// Gaps of these milliseconds, and 99 of `usual_ms`.
samples::Sample with_gaps(int usual_ms, std::initializer_list<int> longest_ms) {
  record::GapSketch sketch;
  sketch.add(std::chrono::milliseconds(usual_ms), 99);
  for (const int one : longest_ms) sketch.add(std::chrono::milliseconds(one));
  samples::Sample sample = answer();
  sample.gaps = {sketch.bins().begin(), sketch.bins().end()};
  std::ranges::reverse(sample.gaps);  // A log may have them in any order.
  return sample;
}

TEST(Values, AreThoseOfAWholeAnswer) {
  samples::Sample sample = answer();
  EXPECT_EQ(value_of(Quantity::ttft, sample), 0.5);
  EXPECT_EQ(value_of(Quantity::tpot, sample), 0.25);
  EXPECT_EQ(value_of(Quantity::output_tokens, sample), 100);
  EXPECT_FALSE(value_of(Quantity::e2e, sample)) << "it was streamed";
  sample.stream = false;
  EXPECT_EQ(value_of(Quantity::e2e, sample), 4);
  sample.served = false;
  EXPECT_EQ(value_of(Quantity::ttft, sample), 0.5) << "its first token came";
  for (const Quantity one : {Quantity::tpot, Quantity::e2e, Quantity::output_tokens})
    EXPECT_FALSE(value_of(one, sample));
}

TEST(Values, TpotTakesSixteenTokensAndAnEmptyAnswerIsOneTokenLong) {
  samples::Sample sample = answer();
  sample.output_tokens = 16;
  EXPECT_TRUE(value_of(Quantity::tpot, sample));
  sample.output_tokens = 15;
  EXPECT_FALSE(value_of(Quantity::tpot, sample));
  sample.output_tokens = 0;
  EXPECT_EQ(value_of(Quantity::output_tokens, sample), 1);
  sample.output_tokens = samples::unknown_count;
  EXPECT_FALSE(value_of(Quantity::output_tokens, sample));
  EXPECT_FALSE(value_of(Quantity::tpot, sample));
}

TEST(Values, ThatAreNoTimesAreNone) {
  for (const float odd : {0.0F, -1.0F, std::numeric_limits<float>::infinity(), samples::unknown}) {
    samples::Sample sample = answer();
    sample.stream = false;
    sample.ttft = sample.tpot = sample.e2e = odd;
    for (const Quantity one : {Quantity::ttft, Quantity::tpot, Quantity::e2e}) EXPECT_FALSE(value_of(one, sample));
  }
}

TEST(Stalls, AGapIsOneIfItIsLongByItselfAndBesideTheOthers) {
  EXPECT_EQ(stalled_s(with_gaps(20, {}), endless, endless), 0);
  EXPECT_EQ(stalled_s(with_gaps(20, {240}), endless, endless), 0);
  EXPECT_NEAR(stalled_s(with_gaps(20, {260}), endless, endless), 0.26, 0.26 * 0.008);
  EXPECT_EQ(stalled_s(with_gaps(30, {260}), endless, endless), 0) << "ten times as long as usual is 300 ms";
  EXPECT_NEAR(stalled_s(with_gaps(30, {2000, 3000, 260}), endless, endless), 5, 5 * 0.008);
}

TEST(Stalls, AWaitIsOneByWhatItHasAboveTheLongestUsualOne) {
  samples::Sample sample = answer();
  sample.ttft = 3;
  EXPECT_EQ(stalled_s(sample, 1, endless), 2);
  EXPECT_EQ(stalled_s(sample, 3, endless), 0);
  EXPECT_EQ(stalled_s(sample, endless, 1), 0) << "nobody knows what is usual; and it was streamed";
  sample.stream = false;
  sample.ttft = samples::unknown;
  EXPECT_EQ(stalled_s(sample, 1, 1.5), 2.5);
}

TEST(Stalls, WhoLeftWithoutATokenHasWaited) {
  samples::Sample sample = answer();
  sample.outcome = Outcome::client_abort;
  sample.served = false;
  sample.lasted = 7;
  EXPECT_EQ(stalled_s(sample, 2, endless), sample.ttft > 2 ? sample.ttft - 2 : 0) << "he had a token";
  sample.ttft = samples::unknown;
  EXPECT_EQ(stalled_s(sample, 2, endless), 5);
  EXPECT_EQ(stalled_s(sample, endless, 2), 0);
  sample.stream = false;
  EXPECT_EQ(stalled_s(sample, endless, 2), 5);
  sample.outcome = Outcome::rejected;
  EXPECT_EQ(stalled_s(sample, 2, 2), 0);
}

TEST(Stalls, OfOneRequestLastTenSecondsAtMost) {
  samples::Sample sample = with_gaps(20, {8000});
  sample.ttft = 4;
  EXPECT_NEAR(stalled_s(sample, 3, endless), 9, 0.1);
  EXPECT_EQ(stalled_s(sample, 1, endless), 10);
  EXPECT_EQ(stalled_s(with_gaps(20, {600'000}), endless, endless), 10);
}

}  // namespace
}  // namespace weir::metrics::compare::pairs
