#include "metrics/compare/comparison/swapped.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

// numpy for the means and errors, scipy.stats.ttest_ind(x, -y, equal_var=False) for the degrees and the interval.
TEST(Swapped, IsWelchsMeanOfTwoWindows) {
  const statistics::BlockValues one{0.011, 0.032, 0.018, 0.025, 0.021, 0.040, 0.029, 0.015, 0.022, 0.027};
  const statistics::BlockValues two{0.051, 0.012, 0.058, 0.035, 0.031, 0.070, 0.049, 0.035, 0.052, 0.007};
  const Swapped swapped = separate(*statistics::estimate_of(one), *statistics::estimate_of(two));
  EXPECT_NEAR(swapped.configuration.mean, 0.032, 1e-15);
  EXPECT_NEAR(swapped.gpu.mean, -0.008, 1e-15);
  for (const statistics::Estimate& effect : {swapped.configuration, swapped.gpu}) {
    EXPECT_NEAR(effect.standard_error, 0.0034270168433266335, 1e-15);
    EXPECT_NEAR(effect.degrees, 12.187070379705109, 1e-10);
  }
  const statistics::Interval interval = interval_of(swapped.configuration);
  EXPECT_NEAR(interval.low, 0.04909172764879139 / 2, 1e-10);
  EXPECT_NEAR(interval.high, 0.0789082723512086 / 2, 1e-10);
}

TEST(Swapped, WithoutSpreadThereIsNone) {
  const Swapped swapped = separate({0.03, 0, 9}, {0.01, 0, 9});
  EXPECT_EQ(swapped.configuration.standard_error, 0);
  EXPECT_EQ(swapped.configuration.degrees, 18);
}

/// b's times are `factor` of a's, give or take a percent.
Comparison window(double factor, bool final = true) {
  TwinSamples samples;
  for (int i = 0; i < 400; ++i) {
    samples::Sample& shadow = samples.shadow(samples.primary(2 * i * second));
    const double noise = 0.99 + 0.02 * uniform(static_cast<std::uint64_t>(i), 1);
    shadow.tpot = static_cast<float>(0.02 * factor * noise);
  }
  Options options = options_of(samples);
  if (!final) options.to_us = *options.to_us + 1000 * second;
  return compare(samples, options);
}

const SwappedVerdict& of(const std::vector<SwappedVerdict>& verdicts, statistics::Metric metric) {
  for (const SwappedVerdict& verdict : verdicts) {
    if (verdict.metric == metric) return verdict;
  }
  static const SwappedVerdict none;
  return none;
}

TEST(Swapped, TellsTheConfigurationsEffectFromTheGpus) {
  struct Case {
    double configuration, gpu;
    statistics::Finding finding;
  };
  for (const auto& c : {Case{1.10, 1.00, statistics::Finding::worse}, Case{1.00, 1.10, statistics::Finding::equivalent},
                        Case{1.10, 0.90, statistics::Finding::worse}, Case{0.90, 1.10, statistics::Finding::better}}) {
    const auto verdicts = separate(window(c.configuration * c.gpu), window(c.configuration / c.gpu));
    const SwappedVerdict& tpot = of(verdicts, statistics::Metric::tpot);
    EXPECT_NEAR(tpot.configuration, c.configuration - 1, 0.005);
    EXPECT_NEAR(tpot.gpu, c.gpu - 1, 0.005);
    EXPECT_LT(tpot.configuration_interval.low, tpot.configuration);
    EXPECT_LT(tpot.gpu_interval.low, tpot.gpu);
    EXPECT_EQ(tpot.decision.finding, c.finding);
    EXPECT_EQ(of(verdicts, statistics::Metric::output_tokens).decision.finding, statistics::Finding::equivalent);
  }
}

TEST(Swapped, NeedsTwoWindowsThatCarryVerdicts) {
  EXPECT_TRUE(separate(window(1.1, false), window(1.1)).empty());
  EXPECT_TRUE(separate(window(1.1), window(1.1, false)).empty());
  Comparison first = window(1.1), second = window(1.1);
  for (Verdict& verdict : second.verdicts) verdict.withheld |= verdict.metric == statistics::Metric::tpot;
  const auto verdicts = separate(first, second);
  EXPECT_TRUE(of(verdicts, statistics::Metric::tpot).withheld);
  EXPECT_EQ(of(verdicts, statistics::Metric::tpot).decision.finding, statistics::Finding::inconclusive);
  EXPECT_EQ(of(verdicts, statistics::Metric::ttft).decision.finding, statistics::Finding::equivalent);
}

TEST(Swapped, TheWiderMarginOfTheTwoHolds) {
  Comparison first = window(1.03), second = window(1.03);
  EXPECT_EQ(of(separate(first, second), statistics::Metric::tpot).decision.finding, statistics::Finding::worse);
  for (Verdict& verdict : second.verdicts) verdict.margin = 0.05;
  EXPECT_EQ(of(separate(first, second), statistics::Metric::tpot).decision.finding, statistics::Finding::equivalent);
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
