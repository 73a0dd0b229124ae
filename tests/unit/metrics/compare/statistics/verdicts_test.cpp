#include "metrics/compare/statistics/verdicts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace weir::metrics::compare::statistics {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// An effect with 9 degrees of freedom, of which `reach` is half the 95 % interval. Both are logarithms.
Effect effect(Metric metric, double mean, double reach, double margin = 0.02) {
  return {metric, Estimate{mean, reach / 2.262157162798205, 9}, margin};
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

// scipy: 2 * min(t.sf((m - high) / se, 9), t.sf((low - m) / se, 9)), at most 1.
TEST(Verdicts, PIsTwiceTheChanceBeyondTheNearerMargin) {
  const double se = 0.002695675549220764;
  EXPECT_NEAR(p_value({Metric::ttft, Estimate{0.024, se, 9}, 0.02}), 0.15387845168041905, 1e-10);
  EXPECT_NEAR(p_value({Metric::slo, Estimate{std::log1p(-0.02) - (0.024 - std::log1p(0.02)), se, 9}, 0.02}),
              0.15387845168041905, 1e-10);
  EXPECT_EQ(p_value({Metric::slo, Estimate{std::log1p(0.02), se, 9}, 0.02}), 1);
  EXPECT_EQ(p_value({Metric::slo, Estimate{0, se, 9}, 0.02}), 1);
  EXPECT_TRUE(std::isnan(p_value({Metric::slo, std::nullopt, 0.02})));
}

TEST(Verdicts, OneMetricAlone) {
  struct Case {
    const char* name;
    Effect effect;
    Finding finding;
  };
  const double up = std::log(1.02), down = std::log(0.98);
  for (const auto& c : std::vector<Case>{
           {"slower", effect(Metric::ttft, up + 0.010, 0.0099), Finding::worse},
           {"the interval touches the margin", effect(Metric::ttft, up + 0.010, 0.0101), Finding::inconclusive},
           {"faster", effect(Metric::tpot, down - 0.010, 0.0099), Finding::better},
           {"more misses", effect(Metric::slo, 0.5, 0.1, 0.2), Finding::worse},
           {"fewer misses", effect(Metric::slo, -0.5, 0.1, 0.2), Finding::better},
           {"more tokens in all", effect(Metric::output_tokens_mean, 0.1, 0.01, 0.05), Finding::worse},
           {"fewer tokens in all", effect(Metric::output_tokens_mean, -0.1, 0.01, 0.05), Finding::better},
           {"longer gaps", effect(Metric::longest_gap, 0.5, 0.1, 0.2), Finding::worse},
           {"fewer freezes", effect(Metric::freezes, -1, 0.1, 0.2), Finding::better},
           {"longer", effect(Metric::output_tokens, 0.05, 0.01), Finding::longer},
           {"shorter", effect(Metric::output_tokens, -0.05, 0.01), Finding::shorter},
           {"tail heavier", effect(Metric::ttft_tail, 0.5, 0.2, 0.2), Finding::worse},
           {"tail lighter", effect(Metric::tpot_tail, -0.5, 0.2, 0.2), Finding::better},
           {"inside", effect(Metric::ttft, 0.005, 0.0147), Finding::equivalent},
           {"inside, but not by the logarithm's lower margin", effect(Metric::ttft, -0.005, 0.01521),
            Finding::inconclusive},
           {"inside, by the logarithm's lower margin", effect(Metric::ttft, -0.005, 0.0152), Finding::equivalent},
           {"over one margin", effect(Metric::slo, 0.005, 0.0151), Finding::inconclusive},
           {"over both margins", effect(Metric::slo, 0, 0.5), Finding::inconclusive},
           {"a wider margin", effect(Metric::ttft, 0.05, 0.01, 0.1), Finding::equivalent},
           {"no spread at all, inside", effect(Metric::ttft, 0.01, 0), Finding::equivalent},
           {"no spread at all, nothing differs", effect(Metric::slo, 0, 0), Finding::equivalent},
           {"no spread at all, outside", effect(Metric::ttft, 0.03, 0), Finding::worse},
           {"no spread at all, on the margin", effect(Metric::slo, std::log1p(0.02), 0), Finding::equivalent},
           {"a margin above everything", effect(Metric::ttft, -3, 0.1, 1.5), Finding::equivalent},
           {"no interval", Effect{Metric::ttft, std::nullopt, 0.02}, Finding::inconclusive},
       }) {
    const std::vector<Decision> decisions = decide(std::vector{c.effect});
    EXPECT_EQ(name_of(decisions[0].finding), name_of(c.finding)) << c.name;
    EXPECT_FALSE(decisions[0].held_back) << c.name;
  }
}

TEST(Verdicts, PIsTheSequencesWhereThereIsOne) {
  Effect effect;
  effect.sequence = Sequence{0.05, 30, 0.001};
  const double margin = std::log1p(effect.margin);
  EXPECT_NEAR(p_value(effect), p_value_beyond(0.05 - margin, *effect.sequence), 1e-12);
  EXPECT_LT(p_value(effect), 0.05);
  effect.sequence->mean = 0;
  EXPECT_EQ(p_value(effect), 1);
}

/// Not worse by a wider margin, though not within the narrow one.
TEST(Verdicts, NotWorseTakesItsOwnMargin) {
  Effect effect;
  effect.worse_margin = 0.10;
  for (const bool by_sequence : {false, true}) {
    if (by_sequence)
      effect.sequence = Sequence{0.02, 30, 0.002};
    else
      effect.estimate = Estimate{0.02, 0.02, 9};
    EXPECT_EQ(decide(std::span(&effect, 1))[0].finding, Finding::not_worse);
    effect.worse_margin = 0.03;
    EXPECT_EQ(decide(std::span(&effect, 1))[0].finding, Finding::inconclusive);
    effect.worse_margin = 0.10;
  }
  effect.worse_margin.reset();
  EXPECT_EQ(decide(std::span(&effect, 1))[0].finding, Finding::inconclusive);
}

/// The ratio says little of few misses, and the difference much; of many it is the other way round.
TEST(Verdicts, MissesAreNotWorseByTheirRatioOrByPoints) {
  struct Case {
    const char* what;
    Estimate ratio;
    double only_a, only_b;  // Of 10,000 pairs.
    unsigned looks;
    Finding finding;
    bool by_ratio, by_points;
  };
  for (const auto& c :
       {Case{"few misses", {0.0, 0.3, 9}, 20, 20, 1, Finding::not_worse, false, true},
        Case{"many misses", {0.0, 0.09, 9}, 400, 400, 1, Finding::not_worse, true, false},
        Case{"neither is sure", {0.0, 0.3, 9}, 100, 100, 1, Finding::inconclusive, false, false},
        Case{"sure at one look alone", {0.0, 0.3, 9}, 50, 50, 5, Finding::inconclusive, false, false},
        Case{"sure at five looks", {0.0, 0.3, 9}, 20, 20, 5, Finding::not_worse, false, true},
        Case{"0.25 points more", {0.5, 0.3, 9}, 1, 26, 1, Finding::inconclusive, false, false},
        Case{"eleven and one, 0.1 points", {1.1, 0.9, 9}, 1, 11, 1, Finding::not_worse, false, true},
        Case{"surely more, by few points", {1.1, 0.1, 9}, 1, 11, 1, Finding::worse, false, true}}) {
    Effect misses{.metric = Metric::slo, .estimate = c.ratio, .margin = 0.2, .worse_margin = 0.2};
    misses.difference = DifferenceOfShares({c.only_a, 10'000}, {c.only_b, 10'000}, true, {0.0, 0.0, 9});
    misses.looks = c.looks;
    EXPECT_FALSE(is_below_worse_points(misses)) << "without a margin";
    misses.worse_points = 0.002;
    EXPECT_EQ(decide(std::span(&misses, 1))[0].finding, c.finding) << c.what;
    EXPECT_EQ(is_below_worse_margin(misses), c.by_ratio) << c.what;
    EXPECT_EQ(is_below_worse_points(misses), c.by_points) << c.what;
    misses.difference.reset();
    EXPECT_FALSE(is_below_worse_points(misses)) << "not known";
  }
}

TEST(Verdicts, HolmHoldsBackWhatWouldHoldAlone) {
  // p is 0.04 or so: enough alone and as the last of a family, too little as the first of four.
  const Effect weak = effect(Metric::ttft, 0.02 + 0.0104, 0.01), none = effect(Metric::tpot, 0, 0.5);
  const Effect sure = effect(Metric::tpot, 0.2, 0.01);
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
  // A metric without an interval is not of the family.
  EXPECT_EQ(decide(std::vector{weak, Effect{Metric::tpot, std::nullopt, 0.02}})[0].finding, Finding::worse);
}

TEST(Verdicts, AVerdictIsNeverBothEquivalentAndDifferent) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> mean(-0.06, 0.06), reach(0, 0.05);
  for (int i = 0; i < 500; ++i) {
    std::vector<Effect> family;
    for (const Metric metric : {Metric::slo, Metric::ttft, Metric::tpot, Metric::output_tokens}) {
      family.push_back(effect(metric, mean(random), reach(random)));
    }
    const std::vector<Decision> decisions = decide(family);
    for (std::size_t k = 0; k < family.size(); ++k) {
      const Interval interval = interval_of(*family[k].estimate);
      const double low = shown(interval.low), high = shown(interval.high);
      const bool inside = low >= -0.02 && high <= 0.02, outside = low > 0.02 || high < -0.02;
      if (decisions[k].finding == Finding::equivalent) {
        EXPECT_TRUE(inside);
      } else if (decisions[k].finding == Finding::inconclusive) {
        EXPECT_FALSE(inside);
        EXPECT_EQ(decisions[k].held_back, outside);
      } else {
        EXPECT_TRUE(outside);
      }
    }
    // The smallest p of the family needs a quarter of the level.
    double smallest = 1;
    for (const Decision& decision : decisions) smallest = std::min(smallest, decision.p);
    const bool any = std::any_of(decisions.begin(), decisions.end(), [](const Decision& decision) {
      return decision.finding != Finding::equivalent && decision.finding != Finding::inconclusive;
    });
    EXPECT_EQ(any, smallest <= 0.0125);
  }
}

/// A chart has what is worse on the right, of every metric.
TEST(Verdicts, WorseIsAlwaysMore) {
  for (std::size_t i = 0; i < metric_count; ++i) {
    const auto metric = static_cast<Metric>(i);
    for (const double mean : {-0.5, 0.5}) {
      const std::vector<Effect> family{effect(metric, mean, 0.02)};
      const Finding finding = decide(family)[0].finding;
      const bool more = finding == Finding::worse || finding == Finding::longer;
      EXPECT_EQ(more, mean > 0) << name_of(metric);
      EXPECT_EQ(finding == Finding::better || finding == Finding::shorter, mean < 0) << name_of(metric);
    }
  }
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
