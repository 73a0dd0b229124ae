// A comparison against answers that numpy 2 and scipy 1.17 gave for the same samples. The reference took block medians
// by numpy.median, ratios of shares and of means with a jackknife written in numpy, intervals by scipy.stats.t, and p
// by scipy.stats.t.sf; nothing of it is this project's code.
#include <gtest/gtest.h>

#include <cmath>

#include "metrics/compare/statistics/effects.hpp"
#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

constexpr std::uint64_t requests = 6000;

struct Values {
  float ttft, tpot;
  std::uint32_t tokens;
};

Values values_a(std::uint64_t i) {
  return {static_cast<float>(0.1 + 0.2 * uniform(i, 1) * uniform(i, 1)),
          static_cast<float>(0.02 + 0.005 * uniform(i, 3)), 10 + static_cast<std::uint32_t>(190 * uniform(i, 5))};
}

Values values_b(std::uint64_t i) {
  const Values a = values_a(i);
  const double slower = 0.97 + 0.1 * uniform(i, 2) + 0.01 * static_cast<double>((i / 600) % 4);
  const double step = 1.05 + 0.06 * uniform(i, 4) + 0.002 * static_cast<double>((i / 600) % 3);
  return {static_cast<float>(a.ttft * slower), static_cast<float>(a.tpot * step),
          10 + static_cast<std::uint32_t>(190 * uniform(i, 6))};
}

void set(samples::Sample& sample, const Values& values) {
  sample.ttft = sample.ttft_client = values.ttft;
  sample.tpot = values.tpot;
  sample.output_tokens = values.tokens;
}

/// Two requests a second for 3000 s.
std::int64_t moment(std::uint64_t i) { return static_cast<std::int64_t>(i) * second / 2; }

void expect(const Comparison& comparison, statistics::Metric metric, double estimate, double low, double high,
            double p) {
  SCOPED_TRACE(name_of(metric));
  const Verdict& verdict = verdict_of(comparison, metric);
  ASSERT_TRUE(verdict.estimate && verdict.interval);
  EXPECT_NEAR(*verdict.estimate, estimate, 1e-9);
  EXPECT_NEAR(verdict.interval->low, low, 1e-9);
  EXPECT_NEAR(verdict.interval->high, high, 1e-9);
  EXPECT_NEAR(verdict.p, p, 1e-6 * p);
}

Comparison compare_pairs() {
  TwinSamples samples;
  for (std::uint64_t i = 0; i < requests; ++i) {
    samples::Sample& primary = samples.primary(moment(i));
    set(primary, values_a(i));
    set(samples.shadow(primary), values_b(i));
  }
  Options options = options_of(samples);
  options.from_us = 0;
  options.to_us = 3000 * second;
  options.slo = config::Slo{"s", "chat", {}, config::Seconds(0.25), config::Seconds(0.0245), {}};
  options.resamples = 2000;
  return compare(samples, options);
}

const Comparison& paired() {
  static const Comparison comparison = compare_pairs();
  return comparison;
}

TEST(KnownAnswers, Pairs) {
  const Comparison& comparison = paired();
  EXPECT_EQ(comparison.state, State::final);
  EXPECT_EQ(comparison.pairs, requests);
  expect(comparison, statistics::Metric::ttft, 0.03270179274708749, 0.024742087694291218, 0.040723324971118684,
         0.0055871355491281);
  expect(comparison, statistics::Metric::tpot, 0.08170815905905456, 0.08023730000984033, 0.08318102084076341,
         6.280181740524031e-15);
  expect(comparison, statistics::Metric::output_tokens, -0.009634630330126988, -0.03972547208803845,
         0.02139912799110154, 1.0);
  expect(comparison, statistics::Metric::output_tokens_mean, -0.005519864038372013, -0.02804414456994826,
         0.01752639823818859, 1.0);
  expect(comparison, statistics::Metric::ttft_tail, 0.5257903494176372, 0.347133853673889, 0.728140217118737,
         0.001815274105302774);
  expect(comparison, statistics::Metric::tpot_tail, 7.584369449378332, 6.606898015478199, 8.687444040064143,
         3.984471399082336e-11);
  expect(comparison, statistics::Metric::slo, 1.524933384088313, 1.426766392852478, 1.627071403683813,
         1.11788265496947e-11);
  const Verdict& slo = verdict_of(comparison, statistics::Metric::slo);
  EXPECT_NEAR(*slo.value_a, 1313 / 6000.0, 1e-12);
  EXPECT_NEAR(*slo.value_b, 3316 / 6000.0, 1e-12);
  EXPECT_NEAR(*verdict_of(comparison, statistics::Metric::output_tokens_mean).value_b, 104.25483333333334, 1e-9);
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::tpot).count, 5617u);  // Both answers have at least 16 tokens.
  EXPECT_EQ(comparison.slo.both, 2681u);
  EXPECT_EQ(comparison.slo.only_a, 2006u);
  EXPECT_EQ(comparison.slo.only_b, 3u);
  EXPECT_EQ(comparison.slo.neither, 1310u);
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::ttft).finding, statistics::Finding::worse);
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::tpot).finding, statistics::Finding::worse);
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::slo).finding, statistics::Finding::worse);
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::ttft_tail).finding, statistics::Finding::worse);
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::output_tokens).finding, statistics::Finding::inconclusive);
}

TEST(KnownAnswers, DurationAtTheLengthOfA) {
  const Comparison& comparison = paired();
  ASSERT_FALSE(comparison.explorations.empty());
  const Exploration& e2e = comparison.explorations.front();
  EXPECT_EQ(e2e.name, "e2e_at_length_of_a");
  EXPECT_NEAR(e2e.estimate, 0.07710054590434083, 1e-9);
  EXPECT_NEAR(e2e.interval->low, 0.07583951981940455, 1e-9);
  EXPECT_NEAR(e2e.interval->high, 0.07836305007848798, 1e-9);
}

// The estimates are by Python's statistics.quantiles(method='inclusive'). The reference resampled the ten blocks 4000
// times with another generator, so the bounds agree but roughly.
TEST(KnownAnswers, TailQuantiles) {
  const Comparison& comparison = paired();
  struct Case {
    std::string_view name;
    double estimate, low, high;
  };
  std::size_t found = 0;
  for (const auto& c : {Case{"ttft_p95", 0.03144983573671545, 0.0225186, 0.0376752},
                        Case{"ttft_p99", 0.04526912314293008, 0.0390656, 0.0541510},
                        Case{"tpot_p95", 0.08578318232930071, 0.0837058, 0.0879960}}) {
    for (const Exploration& exploration : comparison.explorations) {
      if (exploration.name != c.name) continue;
      ++found;
      EXPECT_NEAR(exploration.estimate, c.estimate, 1e-9);
      EXPECT_NEAR(exploration.interval->low, c.low, 0.0015) << c.name;
      EXPECT_NEAR(exploration.interval->high, c.high, 0.0015) << c.name;
    }
  }
  EXPECT_EQ(found, 3u);
}

// Even requests went to one configuration, odd ones to the other.
TEST(KnownAnswers, SplitTraffic) {
  TwinSamples samples;
  for (std::uint64_t i = 0; i < requests; ++i) {
    const bool a = i % 2 == 0;
    set(samples.primary(moment(i), a ? "gpu0" : "gpu1", a ? "fp16" : "fp8"), a ? values_a(i) : values_b(i));
  }
  Options options = open_options_of(samples);
  options.to_us = moment(requests - 2) + 1;  // The last of the first configuration.
  const Comparison comparison = compare(samples, options);
  EXPECT_EQ(comparison.mode, pairs::Mode::split);
  EXPECT_EQ(comparison.state, State::final);
  EXPECT_EQ(comparison.pairs, 0u);
  expect(comparison, statistics::Metric::ttft, 0.013921654193926157, -0.014145729247534676, 0.04278811924067203, 1.0);
  expect(comparison, statistics::Metric::tpot, 0.08056317798979652, 0.07597378552391928, 0.08517214576827821,
         2.04777558117826e-10);
  expect(comparison, statistics::Metric::output_tokens, 0.03684051577968897, -0.030181122157428086, 0.10849384325636885,
         0.5928447523653217);
  expect(comparison, statistics::Metric::output_tokens_mean, 0.01015218690764241, -0.02573745412008006,
         0.04736392159332794, 1.0);
  expect(comparison, statistics::Metric::ttft_tail, 0.5847176079734222, 0.1075202696938502, 1.2675249977277683,
         0.11300807852218685);
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::tpot).finding, statistics::Finding::worse);
  EXPECT_EQ(verdict_of(comparison, statistics::Metric::ttft).finding, statistics::Finding::not_worse);
  EXPECT_TRUE(has_note(comparison, "not_paired"));
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
