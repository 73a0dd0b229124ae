#include "balancer/rollout/evidence.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace weir::balancer::rollout {
namespace {

/// So many requests that the intended share does not count.
constexpr std::uint64_t many = 1'000'000'000;

Counts of(std::uint64_t k, std::uint64_t c, double share) {
  const auto candidate = static_cast<std::uint64_t>(share * double{many});
  return {candidate, k, many - candidate, c};
}

TEST(Evidence, IsTheMeanLikelihoodRatioOfSixteenGreaterShares) {
  for (const double p : {0.01, 0.05, 0.25, 0.5, 0.9})
    for (const std::uint64_t k : {0u, 1u, 5u, 20u})
      for (const std::uint64_t c : {0u, 7u, 60u}) {
        double expected = 0;
        for (int i = 0; i < 16; ++i) {
          const double q = p + (1 - p) * std::pow((i + 0.5) / 16, 2);
          expected += std::pow(q / p, k) * std::pow((1 - q) / (1 - p), c) / 16;
        }
        EXPECT_NEAR(evidence(Drawn{k, c}, p) / expected, 1, 1e-9) << p << ' ' << k << ' ' << c;
        EXPECT_NEAR(evidence(of(k, c, p), p) / expected, 1, 1e-4) << p << ' ' << k << ' ' << c;
      }
}

TEST(Evidence, NothingShowsNothing) {
  EXPECT_DOUBLE_EQ(evidence(Counts{}, 0.5), 1);
  EXPECT_DOUBLE_EQ(evidence({100, 5, 0, 0}, 1), 1) << "nothing is beside the candidate";
  EXPECT_DOUBLE_EQ(evidence({0, 0, 100, 5}, 0), 1);
  EXPECT_DOUBLE_EQ(evidence(Drawn{5, 0}, 1), 1);
  EXPECT_DOUBLE_EQ(evidence(Drawn{5, 0}, 0), 1);
}

/// Few requests say little of the candidate's share, so that its first one that fails is no proof.
TEST(Evidence, TheIntendedShareCountsWhileRequestsAreFew) {
  EXPECT_LT(evidence({1, 1, 0, 0}, 0.25), 4);
  EXPECT_LT(evidence({1, 1, 40, 0}, 0.25), 6) << "twenty by what was counted alone";
  EXPECT_GT(evidence({10, 10, 190, 0}, 0.05), 1e6);
}

TEST(Evidence, GrowsWithTheCandidatesEventsAndFallsWithTheOthers) {
  for (std::uint64_t k = 0; k < 30; ++k) {
    EXPECT_LT(evidence(of(k, 5, 0.25), 0.25), evidence(of(k + 1, 5, 0.25), 0.25));
    EXPECT_GT(evidence(of(10, k, 0.25), 0.25), evidence(of(10, k + 1, 0.25), 0.25));
  }
}

TEST(Counts, HaveNoMoreEventsThanRequests) {
  Counts counts{1, 0, 2, 2};
  counts += {0, 3, 0, 1};
  EXPECT_EQ(counts, (Counts{3, 3, 3, 3}));
}

TEST(Evidence, StaysFiniteForManyEvents) {
  EXPECT_TRUE(std::isfinite(std::log(evidence({5000, 2000, 5000, 2100}, 0.5))));
  EXPECT_LT(evidence({5000, 2000, 5000, 2100}, 0.5), 1);
  EXPECT_GT(evidence({5000, 2300, 5000, 2000}, 0.5), 1000);
}

/// Ville's inequality, looked at after each event: of equal sides at most one in 20 ever reaches 20.
TEST(Evidence, OfEqualSidesIsRarelyGreat) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<> uniform;
  for (const double share : {0.05, 0.5}) {
    int reached = 0;
    constexpr int runs = 400;
    for (int run = 0; run < runs; ++run) {
      Counts counts;
      bool great = false;
      for (int request = 0; request < 3000 && !great; ++request) {
        const bool of_candidate = uniform(random) < share, fails = uniform(random) < 0.02;
        ++(of_candidate ? counts.candidate : counts.stable);
        if (fails) ++(of_candidate ? counts.candidate_bad : counts.stable_bad);
        great = fails && of_candidate && evidence(counts, share) >= 20;
      }
      reached += great;
    }
    EXPECT_LE(reached, runs / 20 + 8) << share;
  }
}

TEST(Evidence, FindsACandidateThatFailsOften) {
  std::mt19937_64 random(6);
  std::uniform_real_distribution<> uniform;
  for (int run = 0; run < 100; ++run) {
    Counts counts;
    int request = 0;
    for (; evidence(counts, 0.25) < 160; ++request) {
      ASSERT_LT(request, 2000) << "10 % fail, and 1 % beside it";
      const bool of_candidate = uniform(random) < 0.25, fails = uniform(random) < (of_candidate ? 0.1 : 0.01);
      ++(of_candidate ? counts.candidate : counts.stable);
      if (fails) ++(of_candidate ? counts.candidate_bad : counts.stable_bad);
    }
  }
}

}  // namespace
}  // namespace weir::balancer::rollout
