#include "metrics/compare/statistics/blocks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weir::metrics::compare::statistics {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

TEST(Blocks, EveryMomentIsInOneBlock) {
  for (const std::int64_t length : {10, 11, 17, 99, 1000, 1801}) {
    const Window window{1000, 1000 + length};
    EXPECT_EQ(window.block_of(1000), 0u);
    EXPECT_EQ(window.block_of(1000 + length - 1), 9u);
    std::size_t before = 0;
    for (std::int64_t at = 1000; at < 1000 + length; ++at) {
      const std::size_t block = window.block_of(at);
      EXPECT_TRUE(block == before || block == before + 1);
      before = block;
    }
    for (std::size_t i = 0; i < block_count; ++i) EXPECT_EQ(window.block_of(window.begin_of(i)), i);
    EXPECT_FALSE(window.holds(999));
    EXPECT_FALSE(window.holds(1000 + length));
  }
}

TEST(Blocks, TakeMediansAndMeansAndLeaveOutWhatIsNoNumber) {
  const Window window{0, 100};
  const std::vector<Point> points{{3, 5},      {1, 1},     {9, 2},
                                  {10, 4},     {19, 8},    {-1, 1000},
                                  {100, 1000}, {12, none}, {15, std::numeric_limits<double>::infinity()}};
  const BlockValues medians = block_medians(points, window);
  EXPECT_EQ(medians[0], 2);
  EXPECT_EQ(medians[1], 6);
  for (std::size_t i = 2; i < block_count; ++i) EXPECT_TRUE(std::isnan(medians[i]));
}

TEST(Blocks, AreNeverMergedSoAnEmptyOneLeavesNoInterval) {
  BlockValues values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  for (std::size_t i = 0; i < block_count; ++i) {
    BlockValues holed = values;
    holed[i] = none;
    EXPECT_FALSE(estimate_of(holed));
    EXPECT_DOUBLE_EQ(mean_of(holed), (55.0 - values[i]) / 9);
  }
  values.fill(none);
  EXPECT_FALSE(estimate_of(values));
  EXPECT_TRUE(std::isnan(mean_of(values)));
}

TEST(Blocks, LastAMinuteOrTwiceTheSlowerSidesSlowest) {
  EXPECT_EQ(needed_block_s(60, 10), 60);
  EXPECT_EQ(needed_block_s(60, 31), 62);
  EXPECT_EQ(needed_block_s(60, none), 60);
  EXPECT_EQ(needed_block_s(2, 0.5), 2);
}

TEST(Blocks, MinutesAreCountedFromTheWindowsBeginning) {
  const std::int64_t minute = 60'000'000;
  const Window window{7, 7 + 3 * minute + minute / 2};
  const std::vector<Point> points{{7, 1}, {6 + minute, 3}, {7 + 2 * minute, 9}, {7 + 3 * minute, 100}};
  const std::vector<double> medians = minute_medians(points, window);
  ASSERT_EQ(medians.size(), 3u);
  EXPECT_EQ(medians[0], 2);
  EXPECT_TRUE(std::isnan(medians[1]));
  EXPECT_EQ(medians[2], 9);
  EXPECT_TRUE(minute_medians(points, Window{0, 0}).empty());
}

TEST(Blocks, NeighboursThatAreAlikeShow) {
  // numpy: ((x[:-1] - m) * (x[1:] - m)).sum() / ((x - m) ** 2).sum()
  EXPECT_NEAR(lag_one_autocorrelation(std::vector<double>{1, 3, 2, 5, 4, 4, 7, 1, 0, 2}), 0.15134474327628364, 1e-14);
  // The neighbours of an unknown one are no pair.
  EXPECT_NEAR(lag_one_autocorrelation(std::vector<double>{1, none, 2, 3}), 0.0, 1e-15);
  EXPECT_TRUE(std::isnan(lag_one_autocorrelation(std::vector<double>{2, 2, 2, 2})));
  EXPECT_TRUE(std::isnan(lag_one_autocorrelation(std::vector<double>{})));
  std::vector<double> slow;
  for (int i = 0; i < 60; ++i) slow.push_back(std::sin(i / 10.0));
  EXPECT_GT(lag_one_autocorrelation(slow), 0.9);
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
