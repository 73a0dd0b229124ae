#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::statistics {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// An effect of which `reach` is half the 95 % interval, with a margin of 2 %. All are logarithms.
Effect effect(Figure figure, double mean, double reach) {
  static const double unit = Sequence{0, 30, 1, 9, 0}.reach(0.05);
  Effect made;
  made.figure = figure;
  made.sequence = Sequence{mean, 30, reach / unit, 9, 0};
  made.margin = {std::log1p(-0.02), std::log1p(0.02)};
  return made;
}

TEST(Verdicts, HolmRejectsStepByStep) {
  struct Case {
    std::vector<double> p;
    std::vector<bool> rejected;
  };
  // statsmodels 0.14: multipletests(p, 0.05, "holm"); NaN was left out there.
  for (const auto& c : {Case{{.01, .04, .03, .005}, {true, false, false, true}},
                        Case{{.0124, .0126, .2, .9}, {true, true, false, false}},
                        Case{{.0125, .0166, .025, .05}, {true, true, true, true}},
                        Case{{.013, .001, .001, .001}, {true, true, true, true}},
                        Case{{.0126, .02, .03, .04}, {false, false, false, false}}, Case{{.0251, .0249}, {true, true}},
                        Case{{nan, .04, nan}, {false, true, false}},
                        Case{{nan, .03, .06, nan}, {false, false, false, false}}, Case{{}, {}}, Case{{nan}, {false}}}) {
    EXPECT_EQ(holm(c.p, 0.05), c.rejected) << testing::PrintToString(c.p);
  }
}

TEST(Verdicts, OneFigureAlone) {
  struct Case {
    const char* name;
    Effect effect;
    Finding finding;
  };
  const double up = std::log(1.02), down = std::log(0.98);
  Effect unknown;
  unknown.margin = {down, up};
  for (const auto& c : std::vector<Case>{
           {"slower", effect(Figure::ttft, up + 0.010, 0.0099), Finding::worse},
           {"the interval touches the margin", effect(Figure::ttft, up + 0.010, 0.0101), Finding::inconclusive},
           {"faster", effect(Figure::tpot, down - 0.010, 0.0099), Finding::better},
           {"longer", effect(Figure::output_tokens, 0.05, 0.01), Finding::longer},
           {"shorter", effect(Figure::output_tokens, -0.05, 0.01), Finding::shorter},
           {"more stalls", effect(Figure::stalls, 0.5, 0.2), Finding::worse},
           {"inside", effect(Figure::ttft, 0.005, 0.0147), Finding::equivalent},
           {"inside, but not by the logarithm's lower margin", effect(Figure::ttft, -0.005, 0.01521),
            Finding::inconclusive},
           {"inside, by the logarithm's lower margin", effect(Figure::ttft, -0.005, 0.0152), Finding::equivalent},
           {"over both margins", effect(Figure::e2e, 0, 0.5), Finding::inconclusive},
           {"no spread at all, inside", effect(Figure::ttft, 0.01, 0), Finding::equivalent},
           {"no spread at all, outside", effect(Figure::ttft, 0.03, 0), Finding::worse},
           {"no sequence", unknown, Finding::inconclusive},
       }) {
    const Decision decision = decide(std::vector{c.effect})[0];
    EXPECT_EQ(name_of(decision.finding), name_of(c.finding)) << c.name;
    EXPECT_FALSE(decision.held_back || decision.too_near) << c.name;
    EXPECT_EQ(std::isnan(decision.p), !c.effect.sequence) << c.name;
  }
}

TEST(Verdicts, PIsThatOfTheNearerMargin) {
  const Effect above = effect(Figure::ttft, 0.05, 0.02), below = effect(Figure::ttft, -0.05, 0.02);
  EXPECT_EQ(p_value(above), p_value_beyond(0.05 - std::log1p(0.02), *above.sequence));
  EXPECT_EQ(p_value(below), p_value_beyond(0.05 + std::log1p(-0.02), *below.sequence));
  EXPECT_EQ(p_value(effect(Figure::ttft, 0.01, 0.001)), 1);
}

/// With one-sided certainty: 2 % and the reach at 10 %, which is less than that at 5 %.
TEST(Verdicts, NotWorseTakesItsOwnMarginAndIsOneSided) {
  Effect one = effect(Figure::tpot, 0.02, 0.05);
  const double limit = 0.02 + one.sequence->reach(0.10);
  ASSERT_LT(limit, 0.02 + 0.05);
  const auto finding = [&] { return decide(std::span(&one, 1))[0].finding; };
  EXPECT_EQ(finding(), Finding::inconclusive) << "nobody asks";
  one.worse_margin = limit + 1e-6;
  EXPECT_EQ(finding(), Finding::not_worse);
  one.worse_margin = limit - 1e-6;
  EXPECT_EQ(finding(), Finding::inconclusive);
}

TEST(Verdicts, BeforeTenMinutesNothingPasses) {
  for (const double minutes : {9.0, 10.0}) {
    Effect same = effect(Figure::tpot, 0, 0), near = effect(Figure::tpot, 0.03, 0.02), by_estimate = near;
    near.worse_margin = by_estimate.worse_margin = 0.06;
    by_estimate.by_estimate = true;
    for (Effect* const one : {&same, &near, &by_estimate}) one->sequence->minutes = minutes;
    const auto found = decide(std::vector{same, near, by_estimate});
    EXPECT_EQ(found[0].finding, minutes < 10 ? Finding::inconclusive : Finding::equivalent);
    EXPECT_EQ(found[1].finding, minutes < 10 ? Finding::inconclusive : Finding::not_worse);
    EXPECT_EQ(found[2].finding, minutes < 10 ? Finding::inconclusive : Finding::not_worse);
  }
}

TEST(Verdicts, AnEffectNearerThanTheLeastClaimIsNeitherBetterNorWorse) {
  for (const double mean : {0.07, -0.07}) {
    Effect near = effect(Figure::ttft, mean, 0.01);
    near.least_claim = 0.08;
    const Decision decision = decide(std::vector{near})[0];
    EXPECT_EQ(decision.finding, Finding::inconclusive);
    EXPECT_TRUE(decision.too_near);
    EXPECT_FALSE(decision.held_back);
    near.least_claim = 0.06;
    EXPECT_EQ(decide(std::vector{near})[0].finding, mean > 0 ? Finding::worse : Finding::better);
    near.least_claim = 0.08;
    near.worse_margin = 0.09;
    EXPECT_EQ(decide(std::vector{near})[0].finding, mean > 0 ? Finding::inconclusive : Finding::not_worse)
        << "what may be worse does not pass";
  }
}

/// Stalls vary so much that hours would not tell; what is above the margin by chance is not worse for all that.
TEST(Verdicts, ByEstimateTheIntervalDecidesAboutWorseAlone) {
  Effect one = effect(Figure::stalls, 0.01, 0.5);
  one.by_estimate = true;
  EXPECT_EQ(decide(std::vector{one})[0].finding, Finding::equivalent);
  one.sequence->mean = 0.05;
  EXPECT_EQ(decide(std::vector{one})[0].finding, Finding::inconclusive);
  one.worse_margin = 0.06;
  EXPECT_EQ(decide(std::vector{one})[0].finding, Finding::not_worse);
  one.sequence->mean = 0.7;
  EXPECT_EQ(decide(std::vector{one})[0].finding, Finding::worse);
}

TEST(Verdicts, SayHowManyTimesAsLongAWindowWouldTell) {
  Effect one = effect(Figure::tpot, 0.02, 0.1);
  one.worse_margin = 0.08;
  const auto times = times_until_known(one, 5, 40);
  ASSERT_TRUE(times);
  EXPECT_LT(0.02 + one.sequence->reach_after(*times, 0.1), 0.08);
  EXPECT_GT(0.02 + one.sequence->reach_after(*times / 1.06, 0.1), 0.08) << "not much less would do";
  // Beyond the margin it takes the level of the first of five figures.
  one.sequence->mean = 0.1;
  const auto to_claim = times_until_known(one, 5, 40);
  ASSERT_TRUE(to_claim);
  EXPECT_GT(0.1 - std::log1p(0.02), one.sequence->reach_after(*to_claim, 0.01));
  EXPECT_LT(0.1 - std::log1p(0.02), one.sequence->reach_after(*to_claim / 1.06, 0.01));
  // A claim that drift forbids takes the minutes that show there is none: 40 of 30.
  one = effect(Figure::tpot, 0.07, 0.01);
  one.least_claim = 0.08;
  EXPECT_NEAR(*times_until_known(one, 5, 40), 40.0 / 30, 0.07);
  one.worse_margin = 0.1;
  EXPECT_NEAR(*times_until_known(one, 5, 40), 40.0 / 30, 0.07) << "nor does it pass before that";
  one.least_claim = 0;
  EXPECT_EQ(times_until_known(one, 5, 40), 1);
  // A length has two limits, so it takes the interval of both sides.
  one = effect(Figure::output_tokens, -0.02, 0.2);
  one.margin = {std::log1p(-0.1), std::log1p(0.1)};
  const auto to_pass = times_until_known(one, 5, 40);
  ASSERT_TRUE(to_pass);
  one.sequence->standard_error *= one.sequence->reach_after(*to_pass, 0.05) / one.sequence->reach(0.05);
  EXPECT_EQ(decide(std::vector{one})[0].finding, Finding::equivalent);
  one.sequence->standard_error *= 1.06;
  EXPECT_EQ(decide(std::vector{one})[0].finding, Finding::inconclusive) << "not much less would do";
  // Nothing passes before ten minutes.
  one = effect(Figure::tpot, 0, 0.001);
  one.worse_margin = 0.08;
  one.sequence->minutes = 5;
  EXPECT_NEAR(*times_until_known(one, 5, 40), 2, 0.1);
  // On the margin no window would.
  one.sequence->mean = 0.08;
  one.margin = {-0.1, 0.1};
  EXPECT_FALSE(times_until_known(one, 5, 40));
  EXPECT_FALSE(times_until_known(Effect{}, 5, 40));
}

TEST(Verdicts, HolmHoldsBackWhatWouldHoldAlone) {
  // p is 0.04 or so: enough alone and as the last of a family, too little as the first of two.
  const Effect weak = effect(Figure::ttft, 0.02 + 0.0104, 0.01), none = effect(Figure::tpot, 0, 0.5);
  const Effect sure = effect(Figure::tpot, 0.2, 0.01);
  ASSERT_LT(p_value(weak), 0.05);
  ASSERT_GT(p_value(weak), 0.025);
  EXPECT_EQ(decide(std::vector{weak})[0].finding, Finding::worse);
  const std::vector<Decision> held = decide(std::vector{weak, none});
  EXPECT_EQ(held[0].finding, Finding::inconclusive);
  EXPECT_TRUE(held[0].held_back);
  EXPECT_FALSE(held[1].held_back);
  const std::vector<Decision> last = decide(std::vector{weak, sure});
  EXPECT_EQ(last[0].finding, Finding::worse);
  EXPECT_EQ(last[1].finding, Finding::worse);
  EXPECT_EQ(decide(std::vector{weak, Effect{}})[0].finding, Finding::worse)
      << "a figure without a sequence is not of the family";
}

/// A chart has what is worse on the right, of every figure.
TEST(Verdicts, WorseIsAlwaysMore) {
  for (std::size_t i = 0; i < figure_count; ++i) {
    const auto figure = static_cast<Figure>(i);
    for (const double mean : {-0.5, 0.5}) {
      const Finding finding = decide(std::vector{effect(figure, mean, 0.02)})[0].finding;
      EXPECT_EQ(finding == Finding::worse || finding == Finding::longer, mean > 0) << name_of(figure);
      EXPECT_EQ(finding == Finding::better || finding == Finding::shorter, mean < 0) << name_of(figure);
    }
    EXPECT_NEAR(shown(figure, 0.1), figure == Figure::stalls ? 0.1 : std::exp(0.1) - 1, 1e-15);
  }
}

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
