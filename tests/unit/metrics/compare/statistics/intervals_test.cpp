#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "metrics/compare/statistics/intervals.hpp"

namespace weir::metrics::compare::statistics {
namespace {

// The mean wealth of sixteen people was written again in numpy.
TEST(Betting, EvidenceIsTheMeanWealthOfSixteenPeople) {
  EXPECT_NEAR(log_evidence_of_more({0, 9, 1000}), 4.049258485713732, 1e-9);
  EXPECT_NEAR(log_evidence_of_more({3, 12, 5000}), 1.9036916738032885, 1e-9);
  EXPECT_NEAR(log_evidence_of_more({2.5, 1.5, 10}), -0.5286482745527775, 1e-9);
  EXPECT_NEAR(log_evidence_of_more(drawn_events(4, 9, 400, 0.25)), 4.346925063347069, 1e-9);
  EXPECT_NEAR(log_evidence_below({0, 0, 1500}, 1, 0.002), 1.4380495532638515, 1e-9);
  EXPECT_NEAR(log_evidence_below({5, 5, 20'000}, 1, 0.002), 25.098777275709633, 1e-9);
  EXPECT_NEAR(log_evidence_below({40, 30, 300}, 1.5, 0.005), 3.169113279906628, 1e-9);
  EXPECT_NEAR(log_evidence_below(drawn_events(3, 1, 500, 0.25), 1, 0.01), 0.16022692350247592, 1e-9);
}

TEST(Betting, TheDifferenceIsWhatHasNoEvidenceOfFortyAgainstIt) {
  for (const auto& [events, low, high] :
       {std::tuple(Events{0, 9, 1000}, 0.0004630830968066176, 0.022130917872039007),
        std::tuple(Events{20, 20, 10'000}, -0.0021418241787227957, 0.0021418241787227957),
        std::tuple(drawn_events(4, 9, 400, 0.25), 0.004321430698177753, 0.20720994083406402)}) {
    const Interval found = difference_of(events), exchanged = difference_of(events.exchanged());
    EXPECT_NEAR(found.low, low, 1e-9);
    EXPECT_NEAR(found.high, high, 1e-9);
    EXPECT_NEAR(exchanged.low, -high, 1e-9);
    EXPECT_NEAR(exchanged.high, -low, 1e-9);
  }
  EXPECT_EQ(difference_of({}), (Interval{-1, 1}));
}

TEST(Betting, NothingThatHappenedIsNoEvidenceOfMore) {
  EXPECT_NEAR(log_evidence_of_more({0, 0, 100'000}), 0, 1e-12);
  EXPECT_LT(log_evidence_of_more({9, 0, 1000}), 0);
  EXPECT_EQ(log_evidence_of_more({}), 0);
}

/// How many of 300 runs have evidence of 20 at any of their units.
template <class Draw, class Evidence>
int ever(int units, Draw draw, Evidence evidence) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> share(0, 1);
  int found = 0;
  for (int run = 0; run < 300; ++run) {
    Events events;
    bool any = false;
    for (int i = 0; i < units && !any; ++i) {
      draw(events, [&] { return share(random); });
      any = evidence(events) >= std::log(20);
    }
    found += any;
  }
  return found;
}

/// 15 of 300 are expected at most, and 26 are three standard errors more.
TEST(Betting, EqualSidesAreSeldomFoundUnlikeAtAnyLook) {
  const auto both = [](double rate) {
    return [rate](Events& events, auto share) {
      ++events.units;
      const bool a = share() < rate, b = share() < rate;
      events.a += a && !b;
      events.b += b && !a;
    };
  };
  EXPECT_LE(ever(1000, both(0.02), log_evidence_of_more), 26);
  EXPECT_LE(ever(300, both(0.5), log_evidence_of_more), 26);
  const auto drawn = [](Events& events, auto share) {
    ++events.units;
    events.share = 0.1;
    events.share_of_a = 0.9;
    const bool of_b = share() < 0.1;
    if (share() < 0.03) ++(of_b ? events.b : events.a);
  };
  EXPECT_LE(ever(1000, drawn, log_evidence_of_more), 26);
  EXPECT_LE(ever(1000, drawn, [](const Events& events) { return log_evidence_of_more(events.exchanged()); }), 26);
}

/// Clusters may be either side's with a half, though b has a tenth of the requests.
TEST(Betting, ASharedBoundHoldsForEachShareBelowIt) {
  for (const double share_of_b : {0.1, 0.3, 0.5}) {
    const auto drawn = [=](Events& events, auto share) {
      ++events.units;
      events.share = 0.5;
      events.share_of_a = 0.9;
      ++(share() < share_of_b ? events.b : events.a);
    };
    EXPECT_LE(ever(300, drawn, log_evidence_of_more), 26);
    EXPECT_LE(ever(300, drawn, [](const Events& events) { return log_evidence_of_more(events.exchanged()); }), 26);
  }
}

TEST(Betting, OnTheMarginItIsSeldomFoundBelow) {
  const auto worse_by = [](double points) {
    return [points](Events& events, auto share) {
      ++events.units;
      events.b += share() < points;
    };
  };
  const auto below = [](const Events& events) { return log_evidence_below(events, 1, 0.02); };
  EXPECT_LE(ever(1500, worse_by(0.02), below), 26);
  EXPECT_GE(ever(1500, worse_by(0.004), below), 270) << "and far below it is found";
}

TEST(Betting, RareFaultsAreFoundAndTheirAbsenceTakesAFewThousandPairs) {
  const auto candidate_fails = [](Events& events, auto share) {
    ++events.units;
    events.b += share() < 0.01;
  };
  EXPECT_GE(ever(2000, candidate_fails, log_evidence_of_more), 285);
  // numpy: the first of these numbers of pairs without a fault that shows less than 0.2 points.
  EXPECT_LT(log_evidence_below({0, 0, 2600}, 1, 0.002), std::log(20));
  EXPECT_GE(log_evidence_below({0, 0, 2650}, 1, 0.002), std::log(20));
}

TEST(StudentT, AgreesWithScipy) {
  // scipy.stats.t.ppf(0.975, degrees), scipy 1.17.
  EXPECT_NEAR(t_two_sided(0.95, 9), 2.262157162798205, 1e-10);
  EXPECT_NEAR(t_two_sided(0.95, 13.5), 2.1522631393099103, 1e-10);
  EXPECT_NEAR(t_two_sided(0.95, 1), 12.706204736174694, 1e-10);
}

TEST(Measured, AMeanHasItsTInterval) {
  const std::vector<double> values{1, 2, 3, 4, 10};
  const auto found = measured(values);
  EXPECT_DOUBLE_EQ(found->value, 4);
  // scipy.stats.t.interval(0.95, 4, loc=4, scale=scipy.stats.sem([1, 2, 3, 4, 10])).
  EXPECT_NEAR(found->interval->low, -0.389945, 1e-6);
  EXPECT_NEAR(found->interval->high, 8.389945, 1e-6);
}

TEST(Measured, OneValueHasNoInterval) {
  const std::vector<double> one{3};
  EXPECT_DOUBLE_EQ(measured(one)->value, 3);
  EXPECT_FALSE(measured(one)->interval);
  EXPECT_FALSE(measured({}));
}

TEST(Line, IsTheLeastSquaresLineWithIntervals) {
  const std::vector<double> x{0, 1, 2, 3, 4}, y{1, 3.1, 4.9, 7.2, 8.8};
  const auto found = line_through(x, y);
  // scipy.stats.linregress and t.ppf(0.975, 3).
  EXPECT_NEAR(found->slope.value, 1.97, 1e-9);
  EXPECT_NEAR(found->intercept.value, 1.06, 1e-9);
  EXPECT_NEAR(found->slope.interval->low, 1.794725, 1e-6);
  EXPECT_NEAR(found->slope.interval->high, 2.145275, 1e-6);
  EXPECT_NEAR(found->intercept.interval->low, 0.630665, 1e-6);
  EXPECT_NEAR(found->intercept.interval->high, 1.489335, 1e-6);
}

TEST(Line, NeedsPointsThatDiffer) {
  const std::vector<double> same{5, 5, 5, 5}, some{1, 2, 3, 4};
  EXPECT_FALSE(line_through(same, some));
  EXPECT_FALSE(line_through(std::span(some).first(2), std::span(some).first(2)));
}

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
