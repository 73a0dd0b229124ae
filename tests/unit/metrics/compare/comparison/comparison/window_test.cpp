// The window of a comparison: when it begins and ends, when it is too short, and how long it would have to be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/unit/metrics/compare/comparison/comparison/twins.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using testing::HasSubstr;

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
              HasSubstr("cannot be set against that of fp16: no pair counts before the shadow is warm, and " + numbers));
  options.from_us = 0;
  options.to_us = 1800 * second;
  EXPECT_EQ(compare(samples, options).pairs, 0u);
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
