#include "metrics/compare/statistics/evidence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace weir::metrics::compare::statistics {
namespace {

// Python's fractions, which are exact: the integral of q^t (1 - q)^g over a Beta cut off at the threshold.
TEST(Evidence, IsTheExactIntegral) {
  struct Case {
    std::uint64_t towards, against;
    double threshold, prior, log;
  };
  for (const auto& c : {Case{8, 0, 0.5, 1, 4.03914501286748}, Case{9, 0, 0.5, 1, 4.62790967295758},
                        Case{10, 1, 0.5, 1, 3.4317853687332}, Case{12, 1, 0.5, 1, 4.49913789406756},
                        Case{0, 5, 0.5, 1, -1.79175946922805}, Case{40, 20, 0.5, 1, 2.19424800141049},
                        Case{300, 200, 0.5, 1, 7.85750633885255}, Case{1, 0, 0.5, 3, 0.271933715483642},
                        Case{20, 4, 0.5, 3, 4.52211197148482}, Case{60, 25, 0.5, 3, 6.28284170719955},
                        Case{400, 320, 0.5, 3, 2.6754360448532}, Case{7, 0, 0.4, 3, 3.70208337380067},
                        Case{30, 30, 0.4, 3, 0.31757849538414}, Case{120, 110, 0.4, 3, 5.44004527651501},
                        Case{0, 9, 0.4, 3, -1.83933323621551}}) {
    EXPECT_NEAR(log_evidence(c.towards, c.against, c.threshold, c.prior), c.log, 1e-9)
        << c.towards << " to " << c.against << ", " << c.threshold;
  }
}

/// The same by Simpson's rule, with nothing but powers.
long double by_simpson(std::uint64_t towards, std::uint64_t against, double threshold, double prior) {
  constexpr int steps = 4000;
  const auto integral = [&](const std::function<long double(long double)>& f) {
    const long double from = threshold, step = (1 - from) / steps;
    long double sum = 0;
    for (int i = 0; i <= steps; ++i) sum += f(from + i * step) * (i == 0 || i == steps ? 1 : i % 2 ? 4 : 2);
    return sum * step / 3;
  };
  const auto weight = [&](long double q) {
    return std::pow(q, static_cast<long double>(prior - 1)) * std::pow(1 - q, static_cast<long double>(prior - 1));
  };
  const auto likelihood = [&](long double q) {
    return std::pow(q / threshold, static_cast<long double>(towards)) *
           std::pow((1 - q) / (1 - threshold), static_cast<long double>(against));
  };
  return integral([&](long double q) { return weight(q) * likelihood(q); }) / integral(weight);
}

TEST(Evidence, AgreesWithANaiveIntegral) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t towards = random() % 60, against = random() % 60;
    const double threshold = i % 2 ? 0.5 : 0.4, prior = i % 3 ? 3 : 1;
    const auto naive = static_cast<double>(by_simpson(towards, against, threshold, prior));
    EXPECT_NEAR(std::exp(log_evidence(towards, against, threshold, prior)), naive, 1e-8 * std::max(naive, 1.0))
        << towards << " to " << against << ", " << threshold << ", " << prior;
  }
}

// So its expectation never rises under the hypothesis, which is what makes it valid at every look.
TEST(Evidence, IsAMartingaleAtTheThreshold) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t towards = random() % 300, against = random() % 300;
    const double threshold = i % 2 ? 0.5 : 0.4, prior = i % 3 ? 3 : 1;
    const auto e = [&](std::uint64_t t, std::uint64_t g) { return std::exp(log_evidence(t, g, threshold, prior)); };
    const double now = e(towards, against);
    EXPECT_NEAR(threshold * e(towards + 1, against) + (1 - threshold) * e(towards, against + 1), now, 1e-9 * now);
  }
  EXPECT_NEAR(log_evidence(0, 0, 0.4, 3), 0, 1e-12);
}

TEST(Evidence, KeepsTheHighest) {
  std::mt19937_64 random(3);
  for (const double share : {0.2, 0.5, 0.6, 0.9}) {
    for (const double threshold : {0.4, 0.5}) {
      Evidence evidence(threshold, 3);
      double highest = 0;
      std::uint64_t towards = 0, against = 0;
      for (int i = 0; i < 200; ++i) {
        const bool one = std::bernoulli_distribution(share)(random);
        ++(one ? towards : against);
        evidence.add(one);
        highest = std::max(highest, log_evidence(towards, against, threshold, 3));
        ASSERT_DOUBLE_EQ(evidence.highest(), std::exp(highest)) << towards << " to " << against;
      }
    }
  }
}

TEST(Evidence, OfAnythingIsFinite) {
  Evidence evidence(0.5, 1);
  for (int i = 0; i < 5000; ++i) evidence.add(true);
  EXPECT_EQ(evidence.highest(), 1e299);
}

// A thousand looks at each of 400 comparisons of equal sides.
TEST(Evidence, IsSeldomHighWithoutCauseHoweverOftenOneLooks) {
  std::mt19937_64 random(4);
  int twenty = 0;
  for (int run = 0; run < 400; ++run) {
    Evidence evidence(0.5, 3);
    for (int i = 0; i < 1000; ++i) evidence.add(random() % 2);
    twenty += evidence.highest() >= 20;
  }
  EXPECT_LE(twenty, 20);
  EXPECT_GE(twenty, 2) << "a bound that is never reached finds little";
}

TEST(ShareDifference, HoldsAtAllLooksTogether) {
  std::mt19937_64 random(5);
  for (const double share : {0.001, 0.02, 0.3}) {
    int missed = 0;
    for (int run = 0; run < 200; ++run) {
      std::uint64_t only_a = 0, only_b = 0;
      bool out = false;
      for (std::uint64_t n = 1; n <= 2000; ++n) {
        const bool a = std::bernoulli_distribution(share)(random), b = std::bernoulli_distribution(2 * share)(random);
        only_a += a && !b;
        only_b += b && !a;
        const Interval interval = share_difference(only_a, only_b, n);
        out |= interval.low > share || interval.high < share;
      }
      missed += out;
    }
    EXPECT_LE(missed, 10) << share;
  }
}

TEST(ShareDifference, IsThatOfThePage) {
  // sqrt((V + 10) (2 ln 20 + ln((V + 10) / 10))) / n with V = discordant pairs + 10.
  const Interval some = share_difference(3, 20, 4000);
  EXPECT_NEAR((some.low + some.high) / 2, 17 / 4000.0, 1e-12);
  EXPECT_NEAR((some.high - some.low) / 2, 0.004474604881311606, 1e-15);
  EXPECT_EQ(share_difference(0, 0, 0).low, -1);
  EXPECT_EQ(share_difference(0, 0, 0).high, 1);
  EXPECT_EQ(share_difference(0, 2, 2).high, 1);
  EXPECT_GT(share_difference(0, 0, 5700).high, 0.002);
  EXPECT_LT(share_difference(0, 0, 5800).high, 0.002);
}

TEST(Discordance, CountsAndSwaps) {
  std::mt19937_64 random(6);
  Discordance forth, back;
  std::uint64_t both = 0, only_a = 0, only_b = 0;
  Evidence towards_a(0.5, 1), towards_b(0.5, 1);
  for (int i = 0; i < 500; ++i) {
    const bool a = random() % 10 < 2, b = random() % 10 < 4;
    forth.add(a, b);
    back.add(b, a);
    both += a && b;
    only_a += a && !b;
    only_b += b && !a;
    if (a == b) continue;
    towards_a.add(a);
    towards_b.add(b);
  }
  EXPECT_EQ(forth.pairs(), 500u);
  EXPECT_EQ(forth.both(), both);
  EXPECT_EQ(forth.only_a(), only_a);
  EXPECT_EQ(forth.only_b(), only_b);
  EXPECT_EQ(forth.more_in_a(), towards_a.highest());
  EXPECT_EQ(forth.more_in_b(), towards_b.highest());
  EXPECT_GT(forth.more_in_b(), forth.more_in_a());
  EXPECT_EQ(back.more_in_a(), forth.more_in_b());
  EXPECT_EQ(back.more_in_b(), forth.more_in_a());
  EXPECT_EQ(forth.difference().low, -back.difference().high);
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
