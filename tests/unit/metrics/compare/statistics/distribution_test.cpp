#include "metrics/compare/statistics/distribution.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace weir::metrics::compare::statistics {
namespace {

std::vector<float> one_to(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.rbegin(), values.rend(), 1.0F);
  return values;
}

TEST(Distribution, IsThatOfNumpy) {
  auto values = one_to(101);
  const auto found = distribution_of(values);
  EXPECT_EQ(found.count, 101U);
  EXPECT_DOUBLE_EQ(*found.p50, 51);
  EXPECT_DOUBLE_EQ(*found.p90, 91);
  EXPECT_DOUBLE_EQ(*found.p95, 96);
  EXPECT_DOUBLE_EQ(*found.p99, 100);
  auto two = one_to(2);
  EXPECT_DOUBLE_EQ(*distribution_of(two).p95, 1.95);
}

TEST(Distribution, FewerThanAHundredValuesHaveNoP99) {
  auto few = one_to(99), enough = one_to(100);
  EXPECT_FALSE(distribution_of(few).p99);
  EXPECT_TRUE(distribution_of(few).p95);
  EXPECT_TRUE(distribution_of(enough).p99);
}

TEST(Distribution, OfNothingIsNothing) {
  std::vector<float> none;
  EXPECT_EQ(distribution_of(none), Distribution{});
  EXPECT_EQ(GapDistribution().distribution(), Distribution{});
}

TEST(GapDistribution, AddsUpTheGapsOfManyStreams) {
  record::GapSketch first, second;
  first.add(std::chrono::milliseconds(10), 90);
  second.add(std::chrono::milliseconds(20), 9);
  second.add(std::chrono::milliseconds(40), 1);
  GapDistribution gaps;
  gaps.add(first.bins());
  gaps.add(second.bins());
  const auto found = gaps.distribution();
  EXPECT_EQ(found.count, 100U);
  EXPECT_NEAR(*found.p50, 0.010, 0.0001);
  EXPECT_NEAR(*found.p90, 0.011, 0.0001);  // A tenth of the way from the last of the short ones to the next.
  EXPECT_NEAR(*found.p95, 0.020, 0.0002);
  EXPECT_NEAR(*found.p99, 0.0202, 0.0002);
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
