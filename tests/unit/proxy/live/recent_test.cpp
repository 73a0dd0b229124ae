#include "proxy/live/recent.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "bucket_counts.hpp"

namespace weir::proxy::live {
namespace {

std::vector<std::uint64_t> bounds_of(double step) {
  std::vector<std::uint64_t> bounds;
  for (double bound = 1000; bound < 1e6; bound *= step) bounds.push_back(static_cast<std::uint64_t>(bound));
  return bounds;
}

TEST(Recent, AQuantileLiesInTheBucketOfTheExactOne) {
  const auto bounds = bounds_of(1.1);
  std::mt19937 random(2);
  std::lognormal_distribution<double> value(std::log(20'000), 0.5);
  metrics::series::Histogram histogram(bounds);
  Recent recent;
  recent.take(bounds, counts_of(histogram), 1);
  std::vector<double> all;
  for (int i = 0; i < 200; ++i) {
    for (int n = 0; n < 10; ++n) {
      all.push_back(std::floor(value(random)));
      histogram.observe(static_cast<std::uint64_t>(all.back()));
    }
    recent.take(bounds, counts_of(histogram), 1);
    std::ranges::sort(all);
    ASSERT_DOUBLE_EQ(recent.count(), static_cast<double>(all.size()));
    for (const double q : {0.1, 0.5, 0.9}) {
      // The quantile of a histogram is that of the value at which so many are below or equal.
      const auto exact = all[static_cast<std::size_t>(std::ceil(q * static_cast<double>(all.size()))) - 1];
      ASSERT_NEAR(*recent.quantile(q) / exact, 1, 0.11) << q;
      ASSERT_GE(*recent.bound_of_quantile(q), exact);
    }
  }
}

TEST(Recent, HalfOfTheMemoryLaterTheMedianIsThatOfTheNew) {
  const auto bounds = bounds_of(1.1);
  metrics::series::Histogram histogram(bounds);
  Recent recent;
  const double fade = std::exp(-1.0 / 10);
  for (int second = 0; second < 100; ++second) {
    histogram.observe(20'000, 50);
    recent.take(bounds, counts_of(histogram), fade);
  }
  EXPECT_NEAR(*recent.quantile(0.5), 20'000, 2000);
  int seconds = 0;
  while (*recent.quantile(0.5) < 30'000 && ++seconds < 60) {
    histogram.observe(40'000, 50);
    recent.take(bounds, counts_of(histogram), fade);
  }
  EXPECT_NEAR(seconds, 10 * std::log(2), 1);
  for (int second = 0; second < 100; ++second) recent.take(bounds, counts_of(histogram), fade);
  EXPECT_FALSE(recent.quantile(0.5)) << "nothing has come for ten times the memory";
}

/// A slow replica gets few requests. What it did before, with many, does not hide it for longer.
TEST(Recent, ManyOldOnesDoNotHideFewNewOnes) {
  const auto bounds = bounds_of(1.1);
  metrics::series::Histogram histogram(bounds);
  Recent recent;
  const double fade = std::exp(-1.0 / 10);
  for (int second = 0; second < 100; ++second) {
    histogram.observe(20'000, 800);
    recent.take(bounds, counts_of(histogram), fade, 20);
  }
  EXPECT_LE(recent.count(), 20 / (1 - fade));
  int seconds = 0;
  while (*recent.quantile(0.5) < 30'000 && ++seconds < 60) {
    histogram.observe(40'000, 25);
    recent.take(bounds, counts_of(histogram), fade, 20);
  }
  EXPECT_NEAR(seconds, 10 * std::log(2), 1);
}

TEST(Recent, OtherBoundsKeepWhatIsKnown) {
  const auto before = bounds_of(1.1);
  auto after = before;
  after.insert(std::ranges::upper_bound(after, 19'500u), 19'500);
  metrics::series::Histogram histogram(before);
  Recent recent;
  recent.take(before, counts_of(histogram), 1);
  histogram.observe(20'000, 100);
  recent.take(before, counts_of(histogram), 1);
  histogram.rebound(after);
  recent.take(after, counts_of(histogram), 1);
  EXPECT_DOUBLE_EQ(recent.count(), 100);
  EXPECT_EQ(recent.came(), 0);
  EXPECT_NEAR(*recent.quantile(0.5), 20'000, 2000);
  histogram.observe(40'000, 300);
  recent.take(after, counts_of(histogram), 1);
  EXPECT_DOUBLE_EQ(recent.count(), 400);
  EXPECT_EQ(recent.came(), 300);
  EXPECT_NEAR(*recent.quantile(0.5), 40'000, 4000);
}

TEST(Recent, BeyondAllBoundsTheBoundIsInfinite) {
  const std::vector<std::uint64_t> bounds{10, 20};
  metrics::series::Histogram histogram(bounds);
  Recent recent;
  recent.take(bounds, counts_of(histogram), 1);
  histogram.observe(30, 10);
  recent.take(bounds, counts_of(histogram), 1);
  EXPECT_EQ(*recent.quantile(0.5), 20);
  EXPECT_TRUE(std::isinf(*recent.bound_of_quantile(0.5)));
}

}  // namespace
}  // namespace weir::proxy::live
