#include "metrics/compare/statistics/verdicts.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

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

}  // namespace
}  // namespace weir::metrics::compare::statistics
