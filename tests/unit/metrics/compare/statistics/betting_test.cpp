#include "metrics/compare/statistics/betting.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

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

}  // namespace
}  // namespace weir::metrics::compare::statistics
