#include "metrics/compare/statistics/change.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace weir::metrics::compare::statistics
