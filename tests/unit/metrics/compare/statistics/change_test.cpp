#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "metrics/compare/statistics/change.hpp"

namespace weir::metrics::compare::statistics {
namespace {

constexpr double no_minute = std::numeric_limits<double>::quiet_NaN();

/// Minutes of ln(b/a) of two replicas whose speeds drift by themselves (Ornstein-Uhlenbeck, steps of 5 s), for two
/// figures that share the drift and have a noise of their own: 1 % and 3 %.
class Drifting {
 public:
  Drifting(double drift, double lasts_s, unsigned seed)
      : random_(seed), keeps_(std::exp(-5 / lasts_s)), moves_(drift * std::sqrt(1 - keeps_ * keeps_)), drift_(drift) {}

  using Figures = std::array<std::vector<double>, 2>;
  /// From the middle on both figures are `step` higher.
  Figures window(std::size_t minutes, double step) {
    std::array<double, 2> speeds{drift_ * normal_(random_), drift_ * normal_(random_)};
    Figures figures;
    for (std::size_t i = 0; i < minutes; ++i) {
      double difference = 0;
      for (int part = 0; part < 12; ++part) {
        for (double& speed : speeds) speed = keeps_ * speed + moves_ * normal_(random_);
        difference += (speeds[0] - speeds[1]) / 12;
      }
      const double changed = 2 * i >= minutes ? step : 0;
      figures[0].push_back(difference + changed + 0.01 * normal_(random_));
      figures[1].push_back(difference + changed + 0.03 * normal_(random_));
    }
    return figures;
  }
  /// Returns of how many windows a change is said of one figure or the other.
  int said(int windows, std::size_t minutes, double step) {
    int count = 0;
    for (int i = 0; i < windows; ++i) {
      const Figures figures = window(minutes, step);
      count += change_in(figures[0], 0.02) || change_in(figures[1], 0.02);
    }
    return count;
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double keeps_, moves_, drift_;
};

struct Row {
  double drift, lasts_s;
  std::size_t minutes;
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.drift << ", " << row.lasts_s << " s, " << row.minutes << " min";
}

class ChangeOfEquals : public ::testing::TestWithParam<Row> {};

/// In 400 windows a rate of 5 % shows up to 29 times, with a chance of 99 %.
TEST_P(ChangeOfEquals, IsSaidInFiveOfAHundredWindowsAtMost) {
  const auto& [drift, lasts_s, minutes] = GetParam();
  EXPECT_LE(Drifting(drift, lasts_s, 1).said(400, minutes, 0), 29);
}

INSTANTIATE_TEST_SUITE_P(Drifts, ChangeOfEquals,
                         ::testing::Values(Row{0.02, 60, 30}, Row{0.02, 300, 30}, Row{0.02, 1200, 30},
                                           Row{0.02, 3600, 30}, Row{0.02, 60, 120}, Row{0.02, 300, 120},
                                           Row{0.02, 1200, 120}, Row{0.02, 3600, 120}, Row{0.05, 300, 30},
                                           Row{0.05, 1200, 30}, Row{0.05, 1200, 60}, Row{0.05, 3600, 60},
                                           Row{0.05, 3600, 240}));

/// The share found is that of tests/bench/results/verdicts.txt, less four standard errors of 200 windows.
TEST(Change, OfTenPercentIsFound) {
  EXPECT_GE(Drifting(0.02, 60, 2).said(200, 60, 0.1), 150);
  EXPECT_GE(Drifting(0.02, 60, 2).said(200, 120, 0.1), 188);
  EXPECT_GE(Drifting(0.02, 1200, 2).said(200, 30, 0.1), 116);
}

TEST(Change, IsWhereTheMeansPart) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(0, 0.01);
  for (const std::size_t at : {10U, 25U, 45U}) {
    std::vector<double> minutes;
    for (std::size_t i = 0; i < 60; ++i) minutes.push_back((i < at ? 0.1 : -0.1) + noise(random));
    const auto found = change_in(minutes, 0.02);
    ASSERT_TRUE(found) << at;
    EXPECT_EQ(found->at, at);
    EXPECT_NEAR(found->before, 0.1, 0.02);
    EXPECT_NEAR(found->after, -0.1, 0.02);
  }
}

TEST(Change, DependsNeitherOnTheScaleNorOnALevelNorOnTheDirectionOfTime) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const auto minutes = Drifting(0.02, 120, seed).window(50, 0.08)[0];
    std::vector<double> other = minutes, backwards(minutes.rbegin(), minutes.rend());
    for (double& one : other) one = 7 - 3 * one;
    const auto found = change_in(minutes, 0), scaled = change_in(other, 0), turned = change_in(backwards, 0);
    ASSERT_EQ(found.has_value(), scaled.has_value());
    ASSERT_EQ(found.has_value(), turned.has_value());
    if (!found) continue;
    EXPECT_NEAR(found->statistic / scaled->statistic, 1, 1e-6);
    EXPECT_NEAR(found->statistic / turned->statistic, 1, 1e-6);
    EXPECT_EQ(found->at, scaled->at);
    EXPECT_EQ(found->at, minutes.size() - turned->at);
  }
}

/// The statistic is written again here, straight from its definition.
TEST(Change, HasTheStatisticOfItsDefinition) {
  const auto minutes = Drifting(0.02, 60, 9).window(40, 0.15)[0];
  const auto sum = [&](std::size_t from, std::size_t to) {
    double all = 0;
    for (std::size_t i = from; i < to; ++i) all += minutes[i];
    return all;
  };
  const std::size_t n = minutes.size();
  double highest = 0;
  for (std::size_t k = 5; k + 5 <= n; ++k) {
    double squares = 0;
    for (std::size_t t = 1; t <= k; ++t)
      squares += std::pow(sum(0, t) - static_cast<double>(t) / static_cast<double>(k) * sum(0, k), 2);
    for (std::size_t t = k; t < n; ++t)
      squares += std::pow(sum(t, n) - static_cast<double>(n - t) / static_cast<double>(n - k) * sum(k, n), 2);
    const double cusum = sum(0, k) - static_cast<double>(k) / static_cast<double>(n) * sum(0, n);
    highest = std::max(highest, static_cast<double>(n) * cusum * cusum / squares);
  }
  const auto found = change_in(minutes, 0);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->statistic / highest, 1, 1e-9);
}

TEST(Change, NeedsEnoughValuesAndOneThatMatters) {
  std::vector<double> minutes(19, 0.0);
  for (std::size_t i = 10; i < minutes.size(); ++i) minutes[i] = 1;
  EXPECT_FALSE(change_in(minutes, 0.02));
  minutes.push_back(1);
  EXPECT_TRUE(change_in(minutes, 0.02));
  EXPECT_FALSE(change_in(minutes, 1));
  EXPECT_FALSE(change_in(std::vector<double>(100, 0.5), 0.02)) << "nothing changes";
  EXPECT_FALSE(change_in({}, 0.02));
  // Minutes without values have their places, and no more.
  std::vector<double> holes;
  for (std::size_t i = 0; i < minutes.size(); ++i) holes.insert(holes.end(), {no_minute, minutes[i]});
  const auto found = change_in(holes, 0.02);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->at, 21U);
}

TEST(Change, OfAMonthIsFoundInItsGroups) {
  std::vector<double> minutes(30 * 1440, 0.0);
  for (std::size_t i = 20'000; i < minutes.size(); ++i) minutes[i] = 0.1;
  const auto found = change_in(minutes, 0.02);
  ASSERT_TRUE(found);
  EXPECT_NEAR(static_cast<double>(found->at), 20'000, 180);
}

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
