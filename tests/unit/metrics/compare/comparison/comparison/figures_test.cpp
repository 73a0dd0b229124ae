// The figures of a comparison: tails, minorities, freezes and means, and the values that count in none of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/metrics/compare/comparison/comparison/twins.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using testing::HasSubstr;

TEST(Comparison, TheSameIsEquivalent) {
  TwinSamples samples = twins_of(1);
  const Comparison comparison = compare(samples, options_of(samples));
  EXPECT_EQ(comparison.state, State::final);
  EXPECT_EQ(comparison.mode, pairs::Mode::mirrored);
  EXPECT_EQ(comparison.a, "fp16");
  EXPECT_EQ(comparison.b, "fp8");
  EXPECT_EQ(comparison.pairs, 360u);
  EXPECT_TRUE(comparison.notes.empty());
  for (const statistics::Metric metric :
       {statistics::Metric::ttft, statistics::Metric::tpot, statistics::Metric::output_tokens}) {
    EXPECT_EQ(verdict_of(comparison, metric).finding, statistics::Finding::equivalent) << name_of(metric);
  }
}

TEST(Comparison, AHeavyTailShowsWhereTheMedianDoesNot) {
  for (const float times : {5.0f, 25.0f}) {
    TwinSamples samples = twins_of(1);
    for (std::size_t i = 1; i < samples.each().size(); i += 2) {
      if (i / 2 % 20 == 0) samples.each()[i].tpot *= times;
    }
    const Comparison comparison = compare(samples, options_of(samples));
    EXPECT_EQ(verdict_of(comparison, statistics::Metric::tpot).finding, statistics::Finding::equivalent);
    const Verdict& tail = verdict_of(comparison, statistics::Metric::tpot_tail);
    EXPECT_EQ(tail.finding, statistics::Finding::worse) << times;
    EXPECT_FALSE(tail.withheld);
  }
}

/// The medians of a candidate that serves a few requests far more slowly are those of the other side.
TEST(Comparison, ASlowMinorityIsFoundWhereTheMedianIsTheSame) {
  struct Case {
    float samples::Sample::*figure;
    statistics::Metric minority, median;
    float times;
    std::size_t one_in;
    statistics::Finding finding;
  };
  using statistics::Finding, statistics::Metric, samples::Sample;
  for (const auto& [figure, minority, median, times, one_in, finding] :
       {Case{&Sample::tpot, Metric::tpot_minority, Metric::tpot, 3, 20, Finding::worse},
        Case{&Sample::ttft, Metric::ttft_minority, Metric::ttft, 10, 36, Finding::worse},
        Case{&Sample::ttft, Metric::ttft_minority, Metric::ttft, 0.1F, 36, Finding::better},
        Case{&Sample::ttft, Metric::ttft_minority, Metric::ttft, 1.4F, 20, Finding::inconclusive}}) {
    TwinSamples samples = twins_of(1);
    for (std::size_t i = 1; i < samples.each().size(); i += 2) {
      if (i / 2 % one_in == 3) samples.each()[i].*figure *= times;
    }
    const Comparison comparison = compare(samples, options_of(samples));
    EXPECT_EQ(verdict_of(comparison, median).finding, Finding::equivalent);
    const Verdict& found = verdict_of(comparison, minority);
    EXPECT_EQ(found.finding, finding) << name_of(minority) << " times " << times;
    EXPECT_FALSE(found.withheld);
    EXPECT_EQ(found.count, 360U);
    EXPECT_EQ(found.margin, 0.002);
    // None of 360 pairs is of the minority, which does not show that none of 1000 would be.
    const double share = finding == Finding::inconclusive ? 0 : 1.0 / static_cast<double>(one_in);
    EXPECT_NEAR(*found.value_b, times > 1 ? share : 0, 1e-9);
    EXPECT_NEAR(*found.value_a, times > 1 ? 0 : share, 1e-9);
  }
}

TEST(Comparison, TheSentenceOfAMinorityTellsItsShareAndWhatItAdds) {
  TwinSamples samples = twins_of(1);
  for (std::size_t i = 1; i < samples.each().size(); i += 2) {
    if (i / 2 % 18 == 3) samples.each()[i].ttft *= 10;
  }
  EXPECT_THAT(verdict_of(compare(samples, options_of(samples)), statistics::Metric::ttft_minority).why,
              testing::StartsWith(
                  "5.56 % of the pairs have a TTFT of fp8 more than 1.5 times as long as usual beside fp16, 0.00 % the "
                  "other way round: these add +11.1 % to its mean (95 % interval "));
}

TEST(Comparison, ASplitHasNoMinorityBecauseNothingIsPaired) {
  TwinSamples samples;
  for (int i = 0; i < 360; ++i) {
    samples.primary(5 * i * second);
    samples.primary(5 * i * second, "gpu1", "fp8");
  }
  const Comparison split = compare(samples, options_of(samples));
  ASSERT_EQ(split.mode, pairs::Mode::split);
  for (const Verdict& verdict : split.verdicts) EXPECT_FALSE(is_minority(verdict.metric)) << name_of(verdict.metric);
}

TEST(Comparison, ATailLiesAboveTheP95NotOnIt) {
  TwinSamples samples;  // Every time is the same on both sides, so nothing lies above a's p95.
  for (int i = 0; i < 400; ++i) samples.shadow(samples.primary(2 * i * second));
  const Verdict tail = verdict_of(compare(samples, options_of(samples)), statistics::Metric::ttft_tail);
  EXPECT_EQ(tail.value_a, 0.0);
  EXPECT_EQ(tail.value_b, 0.0);
  EXPECT_EQ(tail.estimate, 0.0);
  EXPECT_EQ(tail.finding, statistics::Finding::inconclusive) << "none of 400 may be 3 of 400";
  EXPECT_THAT(tail.why,
              HasSubstr("fp8 was above the p95 TTFT of fp16 in 0.00 % of requests, fp16 in 0.00 %: as often"));
}

/// A gap of this length and 99 of 20 ms.
std::vector<record::GapSketch::Bin> gaps_with(double longest_s) {
  record::GapSketch sketch;
  sketch.add(std::chrono::milliseconds(20), 99);
  sketch.add(std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(longest_s)));
  return {sketch.bins().begin(), sketch.bins().end()};
}

TEST(Comparison, AFreezeIsLongByItselfAndBesideTheOtherGaps) {
  struct Case {
    double longest_s;
    bool slow, freezes;
  };
  for (const auto& c : {Case{0.24, false, false}, Case{0.26, false, true}, Case{0.26, true, false},
                        Case{2.0, true, true}, Case{0.02, false, false}}) {
    TwinSamples samples = twins_of(1);
    for (samples::Sample& sample : samples.each()) {
      sample.gaps = gaps_with(sample.role == Role::shadow ? c.longest_s : 0.1);
      if (c.slow) sample.gaps.front().index = record::GapSketch::bin_of(std::chrono::milliseconds(30));
      std::ranges::reverse(sample.gaps);  // A log may have them in any order.
    }
    const Verdict freezes = verdict_of(compare(samples, options_of(samples)), statistics::Metric::freezes);
    EXPECT_EQ(freezes.value_b, c.freezes ? 1 : 0) << c.longest_s;
    EXPECT_EQ(freezes.value_a, 0.0);
    EXPECT_EQ(freezes.finding, c.freezes ? statistics::Finding::worse : statistics::Finding::inconclusive);
    const Verdict longest = verdict_of(compare(samples, options_of(samples)), statistics::Metric::longest_gap);
    EXPECT_NEAR(*longest.value_b, c.longest_s, 0.008 * c.longest_s);
    EXPECT_NEAR(*longest.value_a, 0.1, 0.0008);
    EXPECT_EQ(longest.finding, c.longest_s > 0.1 ? statistics::Finding::worse : statistics::Finding::better);
  }
}

TEST(Comparison, AnswersWithoutGapsTellOfNoFreezes) {
  TwinSamples samples = twins_of(1);
  EXPECT_EQ(verdict_of(compare(samples, options_of(samples)), statistics::Metric::freezes).count, 0u);
  EXPECT_TRUE(verdict_of(compare(samples, options_of(samples)), statistics::Metric::freezes).withheld);
  for (std::size_t i = 0; i < 100; ++i) samples.each()[i].gaps = gaps_with(0.5);
  samples.each()[0].served = false;
  samples.each()[3].gaps.clear();
  EXPECT_EQ(verdict_of(compare(samples, options_of(samples)), statistics::Metric::freezes).count, 48u);
  EXPECT_EQ(verdict_of(compare(samples, options_of(samples)), statistics::Metric::longest_gap).count, 48u);
}

TEST(Comparison, AFewAnswersThatRunOnShowInTheMeanAlone) {
  TwinSamples samples = twins_of(1);
  for (std::size_t i = 1; i < samples.each().size(); i += 2) {
    if (i / 2 % 20 == 7) samples.each()[i].output_tokens = 1000;
  }
  const Comparison comparison = compare(samples, options_of(samples));
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::output_tokens).finding, statistics::Finding::equivalent);
  const Verdict& mean = verdict_of(comparison, statistics::Metric::output_tokens_mean);
  EXPECT_EQ(mean.finding, statistics::Finding::worse);
  EXPECT_EQ(mean.value_a, 100.0);
  EXPECT_EQ(mean.value_b, 145.0);
  EXPECT_NEAR(*mean.estimate, 0.45, 1e-9);
  EXPECT_EQ(mean.margin, 0.05);
}

TEST(Comparison, FiguresThatAreNoTimesAreLeftOut) {
  TwinSamples samples = twins_of(1);
  const float infinite = std::numeric_limits<float>::infinity();
  const std::vector<float> odd{0, -1, infinite, -infinite, samples::unknown};
  for (std::size_t i = 0; i < 100; ++i) {
    samples.each()[7 * i].ttft = odd[i % odd.size()];
    samples.each()[7 * i].tpot = odd[(i + 1) % odd.size()];
    samples.each()[7 * i].e2e = samples.each()[7 * i].lasted = odd[(i + 2) % odd.size()];
  }
  const Comparison comparison = compare(samples, options_of(samples));
  EXPECT_EQ(comparison.state, State::final);
  for (const statistics::Metric metric : {statistics::Metric::ttft, statistics::Metric::tpot}) {
    EXPECT_EQ(verdict_of(comparison, metric).finding, statistics::Finding::equivalent);
    EXPECT_LT(verdict_of(comparison, metric).count, 270u);
  }
}

TEST(Comparison, TimesThatCannotBeTrueDoNoHarm) {
  TwinSamples samples = twins_of(1);
  samples.each()[3].lasted = samples.each()[3].e2e = std::numeric_limits<float>::max();
  samples.each()[5].received_us = 250'000'000'000 * second;  // In the year 9892.
  samples.each()[4].received_us = samples.each()[4].dispatched_us = 250'000'000'000 * second;
  samples.each()[6].dispatched_us = samples.each()[6].received_us = 0;
  const Comparison comparison = compare(samples, options_of(samples));
  EXPECT_EQ(comparison.pairs, 360u);
  EXPECT_FALSE(verdict_of(comparison, statistics::Metric::tpot).interval);  // All others are in its first block.
}

TEST(Comparison, TpotNeedsSixteenTokensOnBothSidesAndWholeAnswers) {
  TwinSamples samples = twins_of(1);
  samples.each()[0].output_tokens = 15;
  samples.each()[3].output_tokens = 15;
  samples.each()[4].output_tokens = 16;
  samples.each()[7].served = false;
  samples.each()[7].outcome = Outcome::client_abort;
  samples.each()[9].output_tokens = samples::unknown_count;
  const Comparison comparison = compare(samples, options_of(samples));
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::tpot).count, 356u);
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::output_tokens).count, 358u);
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::ttft).count, 360u);
}

TEST(Comparison, AnEmptyAnswerIsOneTokenLong) {
  TwinSamples samples = twins_of(1);
  for (std::size_t i = 1; i < samples.each().size(); i += 2) samples.each()[i].output_tokens = 0;
  const Comparison comparison = compare(samples, options_of(samples));
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::output_tokens).finding, statistics::Finding::shorter);
  EXPECT_NEAR(*verdict_of(comparison, statistics::Metric::output_tokens).estimate, -0.99, 1e-9);
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
