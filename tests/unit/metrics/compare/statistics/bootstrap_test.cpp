#include "metrics/compare/statistics/bootstrap.hpp"

#include <gtest/gtest.h>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::statistics {
namespace {

const Window window{0, 1000};

/// A value a microsecond; b's are `factor` of a's.
SideValues values(double factor) {
  SideValues result;
  for (std::int64_t at = 0; at < 1000; ++at) {
    const double value = 1 + uniform(static_cast<std::uint64_t>(at), 1);
    result.a.push_back({at, value});
    result.b.push_back({at, factor * value});
  }
  return result;
}

TEST(Bootstrap, AConstantFactorHasNoSpread) {
  const auto ratio = BlockBootstrap(values(1.25), window).ratio(0.95, 200);
  ASSERT_TRUE(ratio);
  EXPECT_NEAR(ratio->estimate, 0.25, 1e-12);
  EXPECT_NEAR(ratio->interval.low, 0.25, 1e-12);
  EXPECT_NEAR(ratio->interval.high, 0.25, 1e-12);
}

TEST(Bootstrap, GivesTheSameEveryTimeAndHoldsItsEstimate) {
  SideValues noisy = values(1.1);
  for (Point& point : noisy.b) point.value *= 0.9 + 0.2 * uniform(static_cast<std::uint64_t>(point.at_us), 2);
  const auto one = BlockBootstrap(noisy, window).ratio(0.95, 300), two = BlockBootstrap(noisy, window).ratio(0.95, 300);
  EXPECT_EQ(one->interval.low, two->interval.low);
  EXPECT_EQ(one->interval.high, two->interval.high);
  EXPECT_LT(one->interval.low, one->estimate);
  EXPECT_GT(one->interval.high, one->estimate);
}

TEST(Bootstrap, ABlockThatDiffersWidensTheInterval) {
  SideValues even = values(1.1), uneven = values(1.1);
  for (Point& point : uneven.b) {
    if (window.block_of(point.at_us) == 4) point.value *= 3;
  }
  const auto narrow = BlockBootstrap(even, window).ratio(0.95, 300),
             wide = BlockBootstrap(uneven, window).ratio(0.95, 300);
  EXPECT_GT(wide->interval.high - wide->interval.low, narrow->interval.high - narrow->interval.low + 0.5);
}

TEST(Bootstrap, NeedsEnoughValuesInEveryBlock) {
  EXPECT_TRUE(BlockBootstrap(values(1), window).ratio(0.99, 10));
  EXPECT_FALSE(BlockBootstrap(values(1), window).ratio(0.99, 0));
  SideValues few = values(1);
  few.a.resize(99);
  EXPECT_FALSE(BlockBootstrap(few, Window{0, 99}).ratio(0.99, 10));  // 99 values have no p99.
  EXPECT_TRUE(BlockBootstrap(few, Window{0, 99}).ratio(0.95, 10));
  SideValues holed = values(1);
  std::erase_if(holed.b, [](const Point& point) { return window.block_of(point.at_us) == 7; });
  EXPECT_FALSE(BlockBootstrap(holed, window).ratio(0.95, 10));
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
