#include "metrics/compare/statistics/sequence.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

namespace weir::metrics::compare::statistics {
namespace {

// Written in numpy and scipy from Robbins' formula: the half width at t minutes of the variance v, which is that of the
// window's tenths widened by the square of t over z, with a mixture of variance 30 v / (2 ln(1/l) + ln(1 + 2 ln(1/l))).
TEST(Sequence, ReachIsThatOfTheFormula) {
  struct Case {
    Sequence sequence;
    double level, more, reach;
  };
  for (const auto& c : {Case{{0, 30, 0.01, 9, 0}, 0.05, 1, 0.035031866974741505},
                        Case{{0, 30, 0.01, 9, 0}, 0.01, 1, 0.045062031108809776},
                        Case{{0, 5, 0.01, 4, 0}, 0.05, 1, 0.049073947396587825},
                        Case{{0, 240, 0.01, 9, 0}, 0.10, 1, 0.03290591843055628},
                        Case{{0, 30, 0.01, 9, 0.01}, 0.05, 1, 0.05541508102571848},
                        Case{{0, 30, 0.01, 9, 0}, 0.05, 4, 0.018046310327205908}}) {
    EXPECT_NEAR(c.sequence.reach_after(c.more, c.level), c.reach, 1e-12);
    if (c.more == 1) EXPECT_EQ(c.sequence.reach(c.level), c.sequence.reach_after(1, c.level));
  }
  EXPECT_EQ((Sequence{0.1, 30, 0, 9, 0}.reach(0.05)), 0) << "no part differs from another";
}

TEST(Sequence, AHistoryCountsWhereItVariesMoreThanTheWindow) {
  const Sequence alone{0, 30, 0.01, 9, 0};
  EXPECT_EQ((Sequence{0, 30, 0.01, 9, 1e-6}.reach(0.05)), alone.reach(0.05));
  EXPECT_GT((Sequence{0, 30, 0.01, 9, 0.01}.reach(0.05)), alone.reach(0.05));
  const Interval interval = interval_of(Sequence{0.2, 30, 0.01, 9, 0});
  EXPECT_NEAR(interval.low, 0.2 - 0.035031866974741505, 1e-12);
  EXPECT_NEAR(interval.high, 0.2 + 0.035031866974741505, 1e-12);
}

// scipy.optimize.brentq over the same formula.
TEST(Sequence, PIsTheLevelAtWhichTheLimitIsReached) {
  EXPECT_NEAR(p_value_beyond(0.05, {0, 30, 0.01, 9, 0}), 0.004729656010778205, 1e-6 * 0.0047);
  EXPECT_NEAR(p_value_beyond(0.10, {0, 30, 0.01, 9, 0}), 1.4795111232701372e-05, 1e-6 * 1.5e-5);
  EXPECT_NEAR(p_value_beyond(0.10, {0, 30, 0.01, 9, 0.02}), 0.0035318621845243153, 1e-6 * 0.0035);
  EXPECT_EQ(p_value_beyond(0, {0, 30, 0.01, 9, 0}), 1);
  EXPECT_EQ(p_value_beyond(-1, {0, 30, 0.01, 9, 0}), 1);
  EXPECT_EQ(p_value_beyond(1e-9, {0, 30, 0.01, 9, 0}), 1);
  EXPECT_EQ(p_value_beyond(1e-9, {0, 30, 0, 9, 0}), 1e-12);
}

/// The truth is 0, a history has the variance of a minute, and somebody looks at every minute of four hours. As if
/// each look were the only one, a quarter of these hours would be wrong at some time.
TEST(Sequence, OfAKnownVarianceHoldsTheTruthAtAllLooksTogether) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  int wrong = 0, wrong_by_one_look = 0;
  constexpr int runs = 300;
  for (int run = 0; run < runs; ++run) {
    double sum = 0;
    bool missed = false, missed_by_one_look = false;
    for (int minutes = 1; minutes <= 240; ++minutes) {
      sum += normal(random);
      if (minutes < static_cast<int>(least_minutes)) continue;
      const double mean = sum / minutes;
      missed |= std::abs(mean) > Sequence{mean, static_cast<double>(minutes), 0, 9, 1}.reach(0.05);
      missed_by_one_look |= std::abs(mean) > 1.96 / std::sqrt(minutes);
    }
    wrong += missed;
    wrong_by_one_look += missed_by_one_look;
  }
  EXPECT_LE(wrong, 26) << "5 % and three standard errors";
  EXPECT_GE(wrong_by_one_look, runs / 4);
}

// numpy: the figure without each part in turn, and the root of (n - 1) / n times the sum of their squared distances.
TEST(Jackknife, IsThatOfNumpy) {
  constexpr std::array<double, 10> a{1, 2, 4, 3, 5, 2.5, 1.5, 6, 2, 3}, b{2, 2, 5, 4, 4, 3, 2, 7, 2, 5};
  constexpr std::array<double, 10> count_a{2, 3, 4, 3, 5, 2, 2, 5, 3, 3}, count_b{3, 3, 4, 3, 4, 2, 2, 6, 3, 4};
  std::vector<RatioSums> parts;
  for (std::size_t i = 0; i < a.size(); ++i) parts.push_back({a[i], b[i], count_a[i], count_b[i]});
  const auto ratio = jackknife(parts, Scale::ratio), difference = jackknife(parts, Scale::difference);
  ASSERT_TRUE(ratio && difference);
  EXPECT_NEAR(ratio->mean, 0.12169693497751977, 1e-12);
  EXPECT_NEAR(ratio->standard_error, 0.04673851478476778, 1e-12);
  EXPECT_EQ(ratio->degrees, 9);
  EXPECT_NEAR(difference->mean, 0.12132352941176472, 1e-12);
  EXPECT_NEAR(difference->standard_error, 0.04709960002197004, 1e-12);
}

TEST(Jackknife, KnowsNothingWhereOnePartHasAll) {
  EXPECT_FALSE(jackknife({}, Scale::ratio));
  EXPECT_FALSE(jackknife(std::vector<RatioSums>{{1, 1, 1, 1}}, Scale::ratio));
  const std::vector<RatioSums> one_sided{{1, 0.3, 10, 3}, {1, 0, 10, 0}, {1, 0, 10, 0}};
  EXPECT_FALSE(jackknife(one_sided, Scale::ratio)) << "without the first there is no value of b";
  EXPECT_FALSE(figure_of({0, 1, 1, 1}, Scale::ratio)) << "nothing is a multiple of 0";
  EXPECT_EQ(figure_of({0, 1, 1, 1}, Scale::difference), 1);
  EXPECT_FALSE(figure_of({1, 0, 1, 0}, Scale::difference));
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
