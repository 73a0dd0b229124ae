#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "metrics/compare/statistics/quantile.hpp"

namespace weir::metrics::compare::statistics {
namespace {

struct Known {
  std::vector<double> values;
  double q, wanted;
};

// Quantiles as numpy.quantile(values, q) and R's quantile(values, q) print them.
const Known known[] = {
    {{7}, 0.99, 7},
    {{1, 2}, 0.5, 1.5},
    {{1, 2}, 0.95, 1.95},
    {{1, 2, 3, 4}, 0, 1},
    {{1, 2, 3, 4}, 0.25, 1.75},
    {{1, 2, 3, 4}, 0.5, 2.5},
    {{1, 2, 3, 4}, 0.9, 3.7},
    {{1, 2, 3, 4}, 1, 4},
    {{15, 20, 35, 40, 50}, 0.4, 29},
    {{3, 6, 7, 8, 8, 10, 13, 15, 16, 20}, 0.25, 7.25},
    {{3, 6, 7, 8, 8, 10, 13, 15, 16, 20}, 0.75, 14.5},
};

TEST(Quantile, IsThatOfNumpyAndR) {
  for (const Known& one : known) {
    auto values = one.values;
    EXPECT_DOUBLE_EQ(quantile_of_sorted(std::span<const double>(values), one.q), one.wanted) << one.q;
    std::ranges::reverse(values);
    EXPECT_DOUBLE_EQ(quantile(std::span(values), one.q), one.wanted) << one.q;
  }
}

TEST(Quantile, OfNothingIsNone) {
  std::vector<double> none;
  EXPECT_TRUE(std::isnan(quantile(std::span(none), 0.5)));
  EXPECT_TRUE(std::isnan(quantile_of_sorted(std::span<const double>(none), 0.5)));
  EXPECT_TRUE(std::isnan(quantile_of_gaps({}, 0.5)));
}

double drawn_value(std::mt19937& dice) { return 1 + static_cast<double>(dice() % 100); }

std::vector<double> drawn(std::mt19937& dice) {
  std::vector<double> values(1 + dice() % 60);
  for (double& one : values) one = drawn_value(dice);
  return values;
}

/// The numbers of the gap sketch's bins stand for values here: each gap is taken as the middle of its bin.
TEST(Quantile, OfBinsIsThatOfTheirMiddles) {
  std::mt19937 dice(4);
  for (int round = 0; round < 100; ++round) {
    GapCounts counts;
    std::vector<double> middles;
    for (const double value : drawn(dice)) {
      const auto bin = static_cast<std::uint16_t>(value);
      ++counts[bin];
      middles.push_back(seconds(record::GapSketch::middle_of(bin)));
    }
    for (const double q : {0.0, 0.5, 0.9, 0.95, 0.99, 1.0})
      EXPECT_DOUBLE_EQ(quantile_of_gaps(counts, q), quantile(std::span(middles), q)) << q;
  }
}

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
  EXPECT_EQ(distribution_of(GapCounts{}), Distribution{});
}

TEST(Distribution, AddsUpTheGapsOfManyStreams) {
  record::GapSketch first, second;
  first.add(std::chrono::milliseconds(10), 90);
  second.add(std::chrono::milliseconds(20), 9);
  second.add(std::chrono::milliseconds(40), 1);
  GapCounts gaps;
  add(gaps, first.bins());
  add(gaps, second.bins());
  const auto found = distribution_of(gaps);
  EXPECT_EQ(found.count, 100U);
  EXPECT_NEAR(*found.p50, 0.010, 0.0001);
  EXPECT_NEAR(*found.p90, 0.011, 0.0001);  // A tenth of the way from the last of the short ones to the next.
  EXPECT_NEAR(*found.p95, 0.020, 0.0002);
  EXPECT_NEAR(*found.p99, 0.0202, 0.0002);
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
