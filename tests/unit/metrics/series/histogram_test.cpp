#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "metrics/series/histogram.hpp"

namespace weir::metrics::series {
namespace {

/// Returns the bucket in which Prometheus' definition of `le` puts a value, found the slow way.
std::size_t slow_bucket(std::span<const std::uint64_t> bounds, std::uint64_t value) {
  std::size_t at = 0;
  while (at < bounds.size() && value > bounds[at]) ++at;
  return at;
}

TEST(Histogram, GoesOnWithOtherBounds) {
  const std::vector<std::uint64_t> before{10, 20, 40}, after{10, 15, 20, 50};
  Histogram histogram(before);
  for (const std::uint64_t value : {5u, 12u, 18u, 30u, 45u, 60u}) histogram.observe(value);
  histogram.rebound(after);
  histogram.observe(12);
  histogram.observe(45);
  // 12 and 18 were known to be at most 20, 30 at most 40; what was above every bound stays there.
  const std::vector<std::uint64_t> expected{1, 1, 2, 2, 2};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(histogram.bucket(i), expected[i]) << i;
  EXPECT_EQ(histogram.sum(), 5U + 12 + 18 + 30 + 45 + 60 + 12 + 45);
}

class HistogramOfBounds : public testing::TestWithParam<std::span<const std::uint64_t>> {};

TEST_P(HistogramOfBounds, CountsExactlyWhatBruteForceCounts) {
  const auto bounds = GetParam();
  Histogram histogram(bounds);
  std::vector<std::uint64_t> expected(bounds.size() + 1);
  std::uint64_t sum = 0;
  std::mt19937_64 random(20261121);
  std::uniform_int_distribution<std::size_t> any_bound(0, bounds.size() - 1);
  std::uniform_int_distribution<std::uint64_t> near(0, 2);
  std::uniform_int_distribution<std::uint64_t> anywhere(0, bounds.back() * 2);
  std::uniform_int_distribution<std::uint64_t> times(1, 5);
  for (int i = 0; i < 20'000; ++i) {
    // Half of the values lie on a bound or one beside it, where a mistake would show.
    const std::uint64_t value = i % 2 ? anywhere(random) : bounds[any_bound(random)] - 1 + near(random);
    const std::uint64_t count = times(random);
    histogram.observe(value, count);
    expected[slow_bucket(bounds, value)] += count;
    sum += value * count;
  }
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(histogram.bucket(i), expected[i]) << "bucket " << i;
  EXPECT_EQ(histogram.sum(), sum);
}

INSTANTIATE_TEST_SUITE_P(All, HistogramOfBounds,
                         testing::Values(latency_bounds, per_token_bounds, duration_bounds, overhead_bounds,
                                         size_bounds, ratio_bounds, speed_bounds));

using testing::ElementsAreArray;
using testing::IsSupersetOf;

/// Returns the bounds in their exported unit, as integers of the histogram's.
std::vector<std::uint64_t> scaled(const std::vector<double>& values, double unit) {
  std::vector<std::uint64_t> out;
  for (const double value : values) out.push_back(static_cast<std::uint64_t>(std::llround(value * unit)));
  return out;
}

TEST(Buckets, AscendStrictly) {
  for (const auto bounds : {latency_bounds, per_token_bounds, duration_bounds, overhead_bounds, size_bounds,
                            ratio_bounds, speed_bounds, loop_delay_bounds}) {
    ASSERT_FALSE(bounds.empty());
    EXPECT_TRUE(std::ranges::is_sorted(bounds, std::less_equal<>{}));
    EXPECT_GT(bounds.front(), 0U);
  }
}

TEST(Buckets, AreThoseOfTheDefinition) {
  EXPECT_THAT(latency_bounds,
              ElementsAreArray(scaled({.001, .005, .01, .02, .04, .06, .08, .1, .2, .25, .4, .5, .6,  .75, .8,  1,
                                       2,    2.5,  4,   5,   6,   7.5, 8,   10, 20, 40,  60, 80, 160, 640, 2560},
                                      1e9)));
  EXPECT_THAT(duration_bounds,
              ElementsAreArray(scaled({.05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800}, 1e9)));
  EXPECT_THAT(overhead_bounds,
              ElementsAreArray(scaled({1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5}, 1e3)));
  EXPECT_THAT(ratio_bounds, ElementsAreArray(scaled({.25, .5, .7, .8, .9, .95, 1.05, 1.1, 1.25, 1.5, 2, 4}, 1e3)));
  EXPECT_THAT(speed_bounds,
              ElementsAreArray(scaled({1, 2, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 500, 1000, 2000, 5000}, 1e3)));
  ASSERT_EQ(size_bounds.size(), 21U);
  for (std::size_t i = 0; i < size_bounds.size(); ++i) EXPECT_EQ(size_bounds[i], std::uint64_t{1} << i);
}

TEST(Buckets, PerTokenHoldTheEdgesOfVllmAndOpenTelemetry) {
  const std::vector<double> vllm{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
  EXPECT_THAT(per_token_bounds, IsSupersetOf(scaled(vllm, 1e9)));
  EXPECT_THAT(per_token_bounds, IsSupersetOf(scaled({.0005, .001, .002, .004, .005}, 1e9)));
  const auto below_5_ms = std::ranges::count_if(per_token_bounds, [](auto bound) { return bound < 5'000'000; });
  const auto above_100_ms = std::ranges::count_if(per_token_bounds, [](auto bound) { return bound > 100'000'000; });
  EXPECT_EQ(below_5_ms, 4);
  EXPECT_EQ(above_100_ms, 14);
}

TEST(Buckets, PerTokenStepByAboutTenPercentFrom5To100Milliseconds) {
  for (std::size_t i = 1; i < per_token_bounds.size(); ++i) {
    if (per_token_bounds[i - 1] < 5'000'000 || per_token_bounds[i] > 100'000'000) continue;
    const double step = static_cast<double>(per_token_bounds[i]) / static_cast<double>(per_token_bounds[i - 1]);
    EXPECT_GT(step, 1.08) << per_token_bounds[i];
    EXPECT_LT(step, 1.12) << per_token_bounds[i];
  }
}

TEST(Buckets, TakeInEveryThresholdOnce) {
  const std::vector<config::Slo> slos{
      {"a", "p", config::Seconds{1}, config::Seconds{1.5}, config::Seconds{0.042}, config::Seconds{45}},
      {"b", "q", config::Seconds{1.5}, {}, {}, config::Seconds{30}}};
  const Bounds bounds{slos};
  const auto joined = [](std::span<const std::uint64_t> plain, std::vector<std::uint64_t> more) {
    more.insert(more.end(), plain.begin(), plain.end());
    std::ranges::sort(more);
    return more;
  };
  EXPECT_EQ(bounds.latency, joined(latency_bounds, scaled({1.5}, 1e9))) << "1 s is a bound anyhow";
  EXPECT_EQ(bounds.per_token, joined(per_token_bounds, scaled({.042}, 1e9)));
  EXPECT_EQ(bounds.duration, joined(duration_bounds, scaled({45}, 1e9)));
}

}  // namespace
}  // namespace weir::metrics::series
