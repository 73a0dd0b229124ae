// The verdicts of a comparison: their families, their margins and their sentences, and that no order changes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/metrics/compare/comparison/comparison/twins.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using testing::HasSubstr;

std::vector<statistics::Finding> findings(const Comparison& comparison) {
  std::vector<statistics::Finding> result;
  for (const Verdict& verdict : comparison.verdicts) result.push_back(verdict.finding);
  return result;
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
              HasSubstr("Output length of fp8 is that of fp16 (95 % interval 0.0 % to 0.0 %, ten blocks of 180 s), "
                        "inside the margin of 2.0 %; all blocks say the same."));
}

/// 14,400 pairs in two hours. One side misses the objective once a block, the other one twice in every second block:
/// the ratio of so few is not known.
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
                                                   "as often, 0.00 points (95 % interval "),
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

/// The same with answers that freeze.
TEST(Comparison, FewFreezesAreNotWorseByPoints) {
  record::GapSketch smooth, frozen;
  smooth.add(std::chrono::milliseconds(20), 100);
  frozen.add(std::chrono::milliseconds(20), 99);
  frozen.add(std::chrono::milliseconds(500));
  const auto gaps = [&](bool freezes) {
    const auto& sketch = freezes ? frozen : smooth;
    return std::vector<record::GapSketch::Bin>{sketch.bins().begin(), sketch.bins().end()};
  };
  TwinSamples samples;
  for (int i = 0; i < 14'400; ++i) {
    samples::Sample& primary = samples.primary(i * second / 2);
    primary.gaps = gaps(i % 1440 == 7);
    samples.shadow(primary).gaps = gaps(i / 1440 % 2 == 1 && i % 720 == 19);
  }
  Options options = options_of(samples);
  options.length_us = 7200 * second;
  const Verdict points = verdict_of(compare(samples, options), statistics::Metric::freezes);
  EXPECT_EQ(points.finding, statistics::Finding::not_worse);
  EXPECT_EQ(points.worse_points, 0.002);
  options.margins.miss_points = 1e-9;
  EXPECT_EQ(verdict_of(compare(samples, options), statistics::Metric::freezes).finding,
            statistics::Finding::inconclusive);
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
