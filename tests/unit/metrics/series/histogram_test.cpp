#include "metrics/series/histogram.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "metrics/series/buckets.hpp"

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

}  // namespace
}  // namespace weir::metrics::series
