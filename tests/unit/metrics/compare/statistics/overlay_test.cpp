#include "metrics/compare/statistics/overlay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::statistics {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Overlay, BinsAreEqualStepsOfTheLogarithmAndHoldTheirLowerEdge) {
  std::vector<double> a{1, 1, 1, 2, 5}, b{16, 16, 16, 8, 3};
  const auto edges = overlay_of(Figure::tpot, a, b, 4).edges;
  ASSERT_EQ(edges.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(edges[i], std::exp2(static_cast<double>(i)), 1e-9);

  a[3] = edges[1];
  const auto overlay = overlay_of(Figure::tpot, a, b, 4);
  EXPECT_EQ(overlay.figure, Figure::tpot);
  EXPECT_EQ(overlay.edges, edges);
  EXPECT_THAT(overlay.a.counts, ElementsAre(3, 1, 1, 0));
  EXPECT_EQ(overlay.a.median, 1);
  EXPECT_EQ(overlay.b.median, 16);
  EXPECT_EQ(overlay.b.counts[1], 1U);
}

TEST(Overlay, CountsEveryValueOnce) {
  std::vector<double> a, b;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    a.push_back(std::exp(6 * uniform(i, 1) - 3));
    b.push_back(1.1 * std::exp(6 * uniform(i, 2) - 3));
  }
  a.push_back(0);
  a.push_back(std::numeric_limits<double>::quiet_NaN());
  const auto overlay = overlay_of(Figure::ttft, a, b, 40);
  EXPECT_TRUE(std::ranges::is_sorted(overlay.edges));
  for (const auto& [side, values] : {std::pair(&overlay.a, &a), std::pair(&overlay.b, &b)}) {
    std::vector<std::uint64_t> naive(40);
    std::uint64_t below = 0, above = 0, all = 0;
    for (const double value : *values) {
      if (std::isnan(value)) continue;
      ++all;
      below += value < overlay.edges.front();
      above += value >= overlay.edges.back();
      for (std::size_t i = 0; i < 40; ++i) naive[i] += value >= overlay.edges[i] && value < overlay.edges[i + 1];
    }
    EXPECT_EQ(side->counts, naive);
    EXPECT_EQ(side->below, below);
    EXPECT_EQ(side->above, above);
    EXPECT_EQ(side->count(), all);
  }
  // A hundredth of all values lies outside, on both sides together.
  EXPECT_NEAR(static_cast<double>(overlay.a.below + overlay.b.below), 40, 2);
  EXPECT_NEAR(static_cast<double>(overlay.a.above + overlay.b.above), 40, 2);
  EXPECT_GT(overlay.b.above, overlay.a.above);
}

TEST(Overlay, EqualValuesHaveBinsAroundThem) {
  const auto overlay = overlay_of(Figure::ttft, {0.2, 0.2}, {0.2}, 4);
  ASSERT_EQ(overlay.edges.size(), 5U);
  EXPECT_NEAR(overlay.edges.back() / overlay.edges.front(), 1.02, 0.001);
  EXPECT_EQ(overlay.a.below + overlay.a.above, 0U);
  EXPECT_EQ(overlay.a.count(), 2U);
}

TEST(Overlay, WithoutAPositiveValueHasNoBins) {
  const auto overlay = overlay_of(Figure::ttft, {0, -1}, {}, 4);
  EXPECT_THAT(overlay.edges, IsEmpty());
  EXPECT_EQ(overlay.a.below, 2U);
  EXPECT_EQ(overlay.a.count(), 2U);
  EXPECT_EQ(overlay.b.count(), 0U);
  EXPECT_TRUE(std::isnan(overlay.b.median));
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
