#include "metrics/compare/statistics/drift.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace weir::metrics::compare::statistics {
namespace {

constexpr double unknown_minute = std::numeric_limits<double>::quiet_NaN();

/// Minutes that keep a value for `length` of them, +1 and -1 by turns.
Minutes in_turns(std::size_t minutes, std::size_t length) {
  Minutes made;
  for (std::size_t i = 0; i < minutes; ++i) made.push_back(i / length % 2 == 0 ? 1 : -1);
  return made;
}

TEST(Drift, TheVarianceIsThatOfBatchMeansOfTheGreaterLength) {
  const auto of = [](const Minutes& minutes) { return long_run_variance(std::vector<Minutes>{minutes}); };
  // Sixteen batches of 30 minutes: their means are +1 and -1, so 30 * 16 / 15.
  EXPECT_NEAR(*of(in_turns(480, 30)), 32, 1e-9);
  // Means of five are +1 and -1, and those of thirty 0: 5 * 96 / 95.
  EXPECT_NEAR(*of(in_turns(480, 5)), 5 * 96.0 / 95, 1e-9);
  EXPECT_EQ(of(Minutes(480, 7.0)), 0);
}

TEST(Drift, OfIndependentMinutesItIsTheirVarianceAndOfAlikeOnesMore) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal;
  Minutes independent, alike;
  double drift = 0;
  for (int i = 0; i < 6000; ++i) {
    independent.push_back(normal(random));
    drift = 0.9 * drift + std::sqrt(1 - 0.81) * normal(random);
    alike.push_back(drift);
  }
  EXPECT_NEAR(*long_run_variance(std::vector<Minutes>{independent}), 1, 0.3);
  EXPECT_GT(*long_run_variance(std::vector<Minutes>{alike}), 8) << "(1 + 0.9) / (1 - 0.9) is 19";
}

TEST(Drift, TakesEightHoursOverAllSeries) {
  EXPECT_FALSE(long_run_variance({}));
  EXPECT_FALSE(long_run_variance(std::vector<Minutes>{Minutes(479, 1.0)}));
  EXPECT_TRUE(long_run_variance(std::vector{Minutes(240, 1.0), Minutes(240, 2.0)}));
  EXPECT_EQ(*long_run_variance(std::vector{Minutes(240, 1.0), Minutes(240, 2.0)}), 0) << "each has a mean of its own";
  // A batch counts if half of its minutes are known.
  auto holes = in_turns(480, 30);
  for (std::size_t i = 0; i < 15; ++i) holes[i] = unknown_minute;
  EXPECT_NEAR(*long_run_variance(std::vector<Minutes>{holes}), 32, 1e-9);
  holes[15] = unknown_minute;
  EXPECT_FALSE(long_run_variance(std::vector<Minutes>{holes}));
  EXPECT_EQ(known_minutes(holes), 464u);
}

TEST(Drift, TheAutocorrelationIsThatOfNumpyOverKnownNeighbours) {
  EXPECT_NEAR(lag_one_autocorrelation(std::vector<double>{1, 3, 2, 5, 4, 6, 5, 8}), 0.24471830985915494, 1e-12);
  // Around 0: 1 * -1 of the first two, and nothing across the gap, over 1 + 1 + 1 + 1.
  EXPECT_NEAR(lag_one_autocorrelation(std::vector<double>{1, -1, unknown_minute, 1, unknown_minute, -1}), -0.25, 1e-12);
  EXPECT_TRUE(std::isnan(lag_one_autocorrelation(std::vector<double>{1, 2})));
  EXPECT_TRUE(std::isnan(lag_one_autocorrelation(std::vector<double>(9, 2.0))));
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
