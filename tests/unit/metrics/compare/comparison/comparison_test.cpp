#include "metrics/compare/comparison/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using testing::HasSubstr;

/// A pair every 5 s for 30 minutes. b's times are `factor` of a's, give or take half a percent.
TwinSamples twins_of(double factor, int pairs = 360) {
  TwinSamples samples;
  for (int i = 0; i < pairs; ++i) {
    const auto k = static_cast<std::uint64_t>(i);
    samples::Sample& primary = samples.primary(5 * i * second);
    primary.ttft = static_cast<float>(0.1 + 0.1 * uniform(k, 1));
    primary.tpot = static_cast<float>(0.02 + 0.01 * uniform(k, 2));
    samples::Sample& shadow = samples.shadow(primary);
    shadow.ttft = static_cast<float>(primary.ttft * factor * (0.995 + 0.01 * uniform(k, 3)));
    shadow.tpot = static_cast<float>(primary.tpot * factor * (0.995 + 0.01 * uniform(k, 4)));
  }
  return samples;
}

std::vector<statistics::Finding> findings(const Comparison& comparison) {
  std::vector<statistics::Finding> result;
  for (const Verdict& verdict : comparison.verdicts) result.push_back(verdict.finding);
  return result;
}

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
        Case{&Sample::ttft, Metric::ttft_minority, Metric::ttft, 1.4F, 20, Finding::equivalent}}) {
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
    const double share = finding == Finding::equivalent ? 0 : 1.0 / static_cast<double>(one_in);
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

// In each block b's TPOT is 2 % above a's, plus 3.16 standard errors, plus or minus 1 %. So p is 0.0115: enough as the
// first of four (0.0125), and too little as the first of five (0.01).
TEST(Comparison, TheTailsAreNotOfTheFirstFamily) {
  TwinSamples samples;
  const double deviation = 0.01, mean = std::log(1.02) + 3.16 * deviation / 3;
  for (int i = 0; i < 1000; ++i) {
    samples::Sample& primary = samples.primary(2 * i * second);
    // Every tenth is far above, anywhere from 0.1 to 10 s, so that the tail hardly grows.
    const double place = uniform(static_cast<std::uint64_t>(i), 1);
    primary.tpot = static_cast<float>(i % 10 ? 0.02 + 0.02 * place : std::pow(10, 2 * place - 1));
    const double sign = i / 100 % 2 ? 1 : -1;
    samples.shadow(primary).tpot = static_cast<float>(primary.tpot * std::exp(mean + sign * deviation));
  }
  Options options = options_of(samples);
  options.from_us = 0;
  options.to_us = 2000 * second;
  options.slo = config::Slo{"s", "chat", config::Seconds(1), {}, {}, {}};
  options.margins.tpot = 0.02;  // Else it would be not worse.
  const Comparison five = compare(samples, options);
  EXPECT_NEAR(verdict_of(five, statistics::Metric::tpot).p, 0.0115, 0.0002);
  EXPECT_EQ(verdict_of(five, statistics::Metric::tpot).finding, statistics::Finding::inconclusive);
  EXPECT_THAT(verdict_of(five, statistics::Metric::tpot).why, HasSubstr("if it stood alone (p = 0.01"));
  EXPECT_THAT(verdict_of(five, statistics::Metric::tpot).why,
              HasSubstr("but not among the metrics tested together (Holm)"));
  options.slo.reset();
  const Comparison four = compare(samples, options);
  EXPECT_EQ(verdict_of(four, statistics::Metric::tpot_tail).p, 1);
  EXPECT_EQ(verdict_of(four, statistics::Metric::tpot).finding, statistics::Finding::worse);
}

TEST(Comparison, SwappingTheSidesNegatesTheLogarithms) {
  TwinSamples samples = twins_of(1.05);
  for (std::size_t i = 1; i < samples.each().size(); i += 2) {
    samples.each()[i].output_tokens = 16 + static_cast<std::uint32_t>(200 * uniform(i, 9));
  }
  Options options = options_of(samples);
  const Comparison forth = compare(samples, options);
  std::swap(options.a, options.b);
  const Comparison back = compare(samples, options);
  for (const statistics::Metric metric :
       {statistics::Metric::ttft, statistics::Metric::tpot, statistics::Metric::output_tokens}) {
    const Verdict &one = verdict_of(forth, metric), &two = verdict_of(back, metric);
    ASSERT_TRUE(one.effect && two.effect);
    EXPECT_NEAR(one.effect->mean, -two.effect->mean, 1e-12);
    EXPECT_NEAR(one.effect->standard_error, two.effect->standard_error, 1e-12);
  }
  EXPECT_EQ(verdict_of(forth, statistics::Metric::tpot).finding, statistics::Finding::worse);
  EXPECT_EQ(verdict_of(back, statistics::Metric::tpot).finding, statistics::Finding::better);
}

TEST(Comparison, IsTheSameForEveryOrderOfTheSamples) {
  TwinSamples samples = twins_of(1.02);
  Options options = options_of(samples);
  options.slo = config::Slo{"s", "chat", {}, config::Seconds(0.15), {}, {}};
  options.resamples = 50;
  std::vector<samples::Sample> all = samples.all();
  const Comparison first = compare(all, samples.names, options);
  std::mt19937_64 random(5);
  for (int i = 0; i < 5; ++i) {
    std::shuffle(all.begin(), all.end(), random);
    const Comparison again = compare(all, samples.names, options);
    ASSERT_EQ(again.verdicts.size(), first.verdicts.size());
    for (std::size_t k = 0; k < first.verdicts.size(); ++k) {
      EXPECT_EQ(again.verdicts[k].estimate, first.verdicts[k].estimate);
      EXPECT_EQ(again.verdicts[k].why, first.verdicts[k].why);
    }
    ASSERT_EQ(again.explorations.size(), first.explorations.size());
    for (std::size_t k = 0; k < first.explorations.size(); ++k) {
      EXPECT_EQ(again.explorations[k].interval->low, first.explorations[k].interval->low);
    }
  }
}

TEST(Comparison, WithNothingThereIsNothingToSay) {
  samples::Names names;
  Options options;
  options.a.name = names.of("x");
  options.b.name = names.of("y");
  const Comparison nothing = compare(std::vector<samples::Sample>{}, names, options);
  EXPECT_EQ(nothing.state, State::too_few);
  EXPECT_EQ(nothing.needs_s, 600);
  EXPECT_FALSE(nothing.verdicts.empty());
  for (const Verdict& verdict : nothing.verdicts) {
    EXPECT_EQ(verdict.finding, statistics::Finding::inconclusive);
    EXPECT_TRUE(verdict.withheld);
    EXPECT_FALSE(verdict.estimate || verdict.interval);
    EXPECT_TRUE(std::isnan(verdict.p));
  }
  TwinSamples one_side;
  for (int i = 0; i < 100; ++i) one_side.primary(60 * i * second);
  EXPECT_EQ(compare(one_side, options_of(one_side)).state, State::too_few);
}

TEST(Comparison, ShortBlocksAreTooFewAndSayWhatWouldDo) {
  TwinSamples samples = twins_of(1.1, 100);  // 500 s
  Options options = options_of(samples);
  const Comparison minute = compare(samples, options);
  EXPECT_EQ(minute.state, State::too_few);
  EXPECT_EQ(minute.needs_s, 600);
  const Verdict& verdict = verdict_of(minute, statistics::Metric::tpot);
  EXPECT_EQ(verdict.finding, statistics::Finding::inconclusive);
  EXPECT_FALSE(verdict.interval);
  EXPECT_NEAR(*verdict.estimate, 0.1, 0.01);
  EXPECT_EQ(verdict.needs_s, 600);
  EXPECT_THAT(verdict.why, HasSubstr("the window of 495 s is too short, it would take 600 s"));
  options.min_block_s = 10;
  EXPECT_EQ(compare(samples, options).state, State::final);
  // Twice the slower side's p99 duration is more than a block.
  for (std::size_t i = 1; i < 11; i += 2) samples.each()[i].e2e = 30;
  const Comparison slow = compare(samples, options);
  EXPECT_EQ(slow.state, State::too_few);
  EXPECT_NEAR(*slow.needs_s, 600, 1);
  for (std::size_t i = 1; i < 11; i += 2) samples.each()[i].e2e = 20;
  EXPECT_EQ(compare(samples, options).state, State::final);
}

TEST(Comparison, NoWindowIsLongEnoughForASideThatWasSparedItsLoad) {
  TwinSamples samples = twins_of(0.9, 100);
  for (std::size_t i = 1; i < samples.each().size(); i += 10) samples.drop(samples.each()[i], "busy");
  const Comparison comparison = compare(samples, options_of(samples));
  EXPECT_EQ(comparison.state, State::too_few);
  for (const statistics::Metric metric : {statistics::Metric::ttft, statistics::Metric::tpot}) {
    const Verdict& verdict = verdict_of(comparison, metric);
    EXPECT_FALSE(verdict.needs_s) << name_of(metric);
    EXPECT_THAT(verdict.why, HasSubstr("spared")) << name_of(metric);
  }
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::output_tokens).needs_s, 600);
}

TEST(Comparison, NamesEachSideWhereAConfigurationIsOnBoth) {
  TwinSamples samples;
  for (int i = 0; i < 10; ++i) {
    const samples::Sample primary = samples.primary(5 * i * second);
    samples.shadow(primary, "ctrl0", "fp16", "control");
    samples.shadow(primary);
  }
  const Comparison control = compare(samples, options_of(samples));
  ASSERT_EQ(control.mode, pairs::Mode::control);
  EXPECT_EQ(control.a, "fp16 (control)");
  EXPECT_EQ(control.b, "fp8");
  EXPECT_EQ(control.side_a.name, "fp16");
  EXPECT_EQ(control.side_a.role, Role::shadow);
  EXPECT_EQ(control.side_b.role, Role::shadow);

  TwinSamples twins;
  for (int i = 0; i < 10; ++i) twins.shadow(twins.primary(5 * i * second), "cand0", "fp16");
  Options options = options_of(twins);
  options.b = options.a;
  const Comparison same = compare(twins, options);
  EXPECT_EQ(same.a, "fp16");
  EXPECT_EQ(same.b, "fp16 (fp8)") << "the [[shadow]] has that name";
  EXPECT_EQ(same.side_a.name, same.side_b.name);
  EXPECT_NE(same.side_a.role, same.side_b.role);
}

TEST(Comparison, AnEmptyBlockLeavesNoIntervalButTellsWhich) {
  TwinSamples samples = twins_of(1.1);
  for (std::size_t i = 0; i < samples.each().size(); ++i) {
    const bool in_third = samples.each()[i].received_us / second / 180 == 2;
    if (in_third) samples.each()[i].tpot = samples::unknown;
  }
  const Comparison comparison = compare(samples, options_of(samples));
  const Verdict& tpot = verdict_of(comparison, statistics::Metric::tpot);
  EXPECT_FALSE(tpot.interval);
  EXPECT_TRUE(tpot.withheld);
  EXPECT_TRUE(std::isnan(tpot.blocks[2]));
  EXPECT_THAT(tpot.why, HasSubstr("block 3 (00:05:59) has no value"));
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::ttft).finding, statistics::Finding::worse);
  EXPECT_EQ(comparison.state, State::final);
}

TEST(Comparison, WithoutAnyIntervalThereAreTooFew) {
  TwinSamples samples = twins_of(1.1);
  for (samples::Sample& sample : samples.each()) {
    sample.ttft = sample.tpot = samples::unknown;
    sample.output_tokens = samples::unknown_count;
  }
  EXPECT_EQ(compare(samples, options_of(samples)).state, State::too_few);
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

TEST(Comparison, ThereIsNoVerdictWhileTheWindowRuns) {
  TwinSamples samples = twins_of(1.1);  // The last pair is dispatched after 1795 s, and ends 2 s later.
  Options options = open_options_of(samples);
  options.length_us = 3600 * second;
  const Comparison running = compare(samples, options);
  EXPECT_EQ(running.state, State::running);
  EXPECT_EQ(running.window.to_us, 3600 * second);
  EXPECT_TRUE(verdict_of(running, statistics::Metric::tpot).estimate);
  EXPECT_TRUE(verdict_of(running, statistics::Metric::tpot).withheld);
  EXPECT_THAT(verdict_of(running, statistics::Metric::tpot).why, HasSubstr("the declared window has not ended"));
  options.length_us = 1800 * second;  // It ends 3 s behind the last answer, which is less than 1 %.
  EXPECT_EQ(compare(samples, options).state, State::final);
  options.length_us.reset();
  options.to_us = 1900 * second;
  EXPECT_EQ(compare(samples, options).state, State::running);
  options.to_us = 1700 * second;
  EXPECT_EQ(compare(samples, options).state, State::final);
}

TEST(Comparison, TheWindowBeginsWhenTheShadowIsWarm) {
  TwinSamples samples = twins_of(1.1);
  Options options = open_options_of(samples);
  options.warm_up = {};
  const Comparison comparison = compare(samples, options);
  EXPECT_EQ(comparison.window.from_us, 600 * second);
  EXPECT_EQ(comparison.warming, 120u);
  EXPECT_EQ(comparison.pairs, 240u);
  EXPECT_THAT(sentence_of(comparison, "warm_up"), HasSubstr("not warm yet: 120."));
  // An earlier beginning does not help, and a later one holds.
  options.from_us = 100 * second;
  EXPECT_EQ(compare(samples, options).window.from_us, 600 * second);
  EXPECT_EQ(compare(samples, options).warming, 100u);
  options.from_us = 700 * second;
  options.length_us = 1000 * second;
  const Comparison later = compare(samples, options);
  EXPECT_EQ(later.window.from_us, 700 * second);
  EXPECT_EQ(later.window.to_us, 1700 * second);
  EXPECT_EQ(later.pairs, 200u);
  options.from_us.reset();
  EXPECT_EQ(compare(samples, options).window.to_us, 1600 * second);  // The length counts from where the window begins.
}

TEST(Comparison, AShadowThatBeganAfterTheDeclaredWindowKeepsNoOtherCold) {
  TwinSamples samples = twins_of(1.1);  // Half an hour.
  for (int i = 0; i < 100; ++i) samples.shadow(samples.primary((3600 + i) * second), "cand1", "fp8", "later");
  Options options = open_options_of(samples);
  options.warm_up = {};
  EXPECT_EQ(compare(samples, options).pairs, 0u) << "the other began less than ten minutes before the end";
  options.to_us = 1800 * second;
  EXPECT_EQ(compare(samples, options).pairs, 240u);
  options.to_us.reset();
  options.from_us = 0;
  options.length_us = 1800 * second;
  EXPECT_EQ(compare(samples, options).pairs, 240u);
}

TEST(Comparison, AShadowThatNeverGotWarmGivesNothing) {
  TwinSamples samples = twins_of(1.1);
  Options options = options_of(samples);
  options.warm_up.seconds = 1;
  options.warm_up.kv_tokens = [](auto, auto) { return 1 << 30; };
  const Comparison comparison = compare(samples, options);
  EXPECT_EQ(comparison.state, State::too_few);
  EXPECT_EQ(comparison.pairs, 0u);
  EXPECT_EQ(comparison.warming, 360u);
  EXPECT_EQ(comparison.needs_s, std::nullopt) << "a longer window alone would not do";
  const std::string numbers = "fp8 has prefilled 180000 of the 1073741824 tokens that its KV cache holds";
  EXPECT_THAT(sentence_of(comparison, "warm_up"), HasSubstr("not warm yet: 360. So far " + numbers));
  EXPECT_THAT(verdict_of(comparison, statistics::Metric::ttft).why,
              HasSubstr("but no verdict: no pair counts before the shadow is warm, and " + numbers));
  options.from_us = 0;
  options.to_us = 1800 * second;
  EXPECT_EQ(compare(samples, options).pairs, 0u);
}

TEST(Comparison, MarginsAreNeverBelowTheNoiseFloor) {
  TwinSamples same = twins_of(1.03), samples = twins_of(1.025);
  const Comparison noise = compare(same, options_of(same));
  Options options = options_of(samples);
  EXPECT_EQ(verdict_of(compare(samples, options), statistics::Metric::tpot).finding, statistics::Finding::worse);
  options.floor = floor_of(noise);
  const Comparison comparison = compare(samples, options);
  EXPECT_NEAR(verdict_of(comparison, statistics::Metric::tpot).margin, 0.03, 0.002);
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::tpot).finding, statistics::Finding::equivalent);
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::output_tokens).margin, 0.02);
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::ttft_tail).margin,
            std::max(0.2, std::abs(*verdict_of(noise, statistics::Metric::ttft_tail).estimate)));
  options.floor[static_cast<std::size_t>(statistics::Metric::tpot)] = -0.3;
  options.margin = 0.1;
  EXPECT_EQ(verdict_of(compare(samples, options), statistics::Metric::tpot).margin, 0.3);
  EXPECT_EQ(verdict_of(compare(samples, options), statistics::Metric::output_tokens).margin, 0.1);
}

TEST(Comparison, SaysInOneSentenceWhy) {
  TwinSamples samples = twins_of(1.1);
  for (samples::Sample& sample : samples.each()) {
    sample.received_us += 27000 * second;  // 07:30
    sample.dispatched_us += 27000 * second;
    if (sample.role == Role::shadow && (sample.received_us / second - 27000) / 180 == 4) sample.tpot *= 1.05f;
  }
  const std::string why = verdict_of(compare(samples, options_of(samples)), statistics::Metric::tpot).why;
  EXPECT_THAT(
      why, HasSubstr("TPOT of fp8 is 10.5 % above that of fp16 (95 % interval +9.3 % to +11.8 %, ten blocks of 180 s), "
                     "beyond the margin of 2.0 %; blocks 5 (07:41:58, +15.5 %) and "));
  EXPECT_EQ(std::count(why.begin(), why.end(), '\n'), 0);
  EXPECT_EQ(why.back(), '.');
  TwinSamples same = twins_of(1);
  EXPECT_THAT(verdict_of(compare(same, options_of(same)), statistics::Metric::output_tokens).why,
              HasSubstr("Output length of fp8 is that of fp16 (95 % interval +0.0 % to +0.0 %, ten blocks of 180 s), "
                        "inside the margin of 2.0 %; all blocks say the same."));
}

/// 14,400 pairs in two hours. One side misses the objective once a block, the other one twice in every second block: the
/// ratio of so few is not known.
TEST(Comparison, FewMissesAreNotWorseByPoints) {
  TwinSamples samples;
  for (int i = 0; i < 14'400; ++i) {
    samples::Sample& primary = samples.primary(i * second / 2);
    if (i % 1440 == 7) primary.ttft = 1;
    samples::Sample& shadow = samples.shadow(primary);
    shadow.ttft = i / 1440 % 2 == 1 && i % 720 == 19 ? 1.0F : 0.1F;
  }
  Options options = options_of(samples);
  options.length_us = 7200 * second;
  options.slo = config::Slo{"s", "chat", config::Seconds(0.3), {}, {}, {}};
  const Verdict points = verdict_of(compare(samples, options), statistics::Metric::slo);
  EXPECT_EQ(points.finding, statistics::Finding::not_worse);
  EXPECT_EQ(points.worse_points, 0.002);
  EXPECT_THAT(points.why, testing::AllOf(HasSubstr("fp8 missed the objective in 0.07 % of requests, fp16 in 0.07 %: "
                                                   "as often, +0.00 points (95 % interval "),
                                         HasSubstr(" points, ten blocks of 720 s), not worse by 0.20 points or more")));
  options.margins.miss_points = 1e-9;
  const Verdict ratio = verdict_of(compare(samples, options), statistics::Metric::slo);
  EXPECT_EQ(ratio.finding, statistics::Finding::inconclusive);
  EXPECT_THAT(ratio.why, HasSubstr("beyond the margin of 20.0 %, nor clearly below 0.00 points"));
  options.margins.misses = 2;
  EXPECT_THAT(verdict_of(compare(samples, options), statistics::Metric::slo).why,
              HasSubstr("), not worse by 200.0 % or more; "));
  options.margins.miss_points = 0.002;
  EXPECT_THAT(verdict_of(compare(samples, options), statistics::Metric::slo).why,
              HasSubstr("), not worse by 200.0 %, nor by 0.20 points or more; "));
}

TEST(Comparison, AttainmentIsComparedPairByPair) {
  TwinSamples samples = twins_of(1);
  Options options = options_of(samples);
  options.slo = config::Slo{"s", "chat", config::Seconds(0.3), {}, {}, {}};
  EXPECT_EQ(findings(compare(samples, options)).size(), statistics::metric_count);
  EXPECT_EQ(verdict_of(compare(samples, options), statistics::Metric::slo).finding, statistics::Finding::inconclusive)
      << "a few hundred requests without a miss do not say that none in 500 misses";
  for (std::size_t i = 1; i < samples.each().size(); i += 2) {
    if (i / 2 % 10 == 3) samples.each()[i].ttft = 1;
  }
  const Comparison slower = compare(samples, options);
  EXPECT_EQ(verdict_of(slower, statistics::Metric::slo).finding, statistics::Finding::worse);
  EXPECT_EQ(verdict_of(slower, statistics::Metric::slo).value_a, 0.0);
  EXPECT_NEAR(*verdict_of(slower, statistics::Metric::slo).value_b, 0.1, 1e-9);
  EXPECT_NEAR(*verdict_of(slower, statistics::Metric::slo).estimate, 36.5 / 0.5 - 1, 1e-9);
  EXPECT_EQ(slower.slo.both, 324u);
  EXPECT_EQ(slower.slo.only_a, 36u);
  EXPECT_EQ(slower.slo.only_b + slower.slo.neither, 0u);
  options.slo.reset();
  EXPECT_EQ(findings(compare(samples, options)).size(), statistics::metric_count - 1);
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
