#include "metrics/compare/statistics/difference_of_shares.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/poisson.hpp>
#include <cmath>
#include <cstddef>
#include <vector>

#include "metrics/compare/statistics/student_t.hpp"

namespace weir::metrics::compare::statistics {
namespace {

/// Blocks that are alike.
constexpr Estimate no_spread{0, 0, 9};

/// The probabilities of numbers of ones, from the first on that matters to the last.
struct Law {
  double first = 0;
  std::vector<double> chances{};
};

template <typename Distribution>
Law law_of(const Distribution& distribution, double most) {
  const double middle = mean(distribution), far = 8 * standard_deviation(distribution) + 15;
  Law law{.first = std::max(0.0, std::floor(middle - far))};
  for (double ones = law.first; ones <= std::min(most, middle + far); ++ones)
    law.chances.push_back(pdf(distribution, ones));
  return law;
}
Law poisson(double expected) {
  return expected > 0 ? law_of(boost::math::poisson(expected), 1e9) : Law{.first = 0, .chances = {1}};
}
Law binomial(double all, double share) { return law_of(boost::math::binomial(all, share), all); }

/// Returns the probability that the difference is said to be less than `margin`, summed over all numbers of ones. The
/// limit falls with a's number and rises with b's, so the least number of a that does is sought from that of b's last.
double said_to_be_less(double margin, double level, bool paired, const Law& of_a, double all_a, const Law& of_b,
                       double all_b) {
  const std::vector<double>& chances_a = of_a.chances;
  std::vector<double> from_a(chances_a.size() + 1);
  for (std::size_t i = chances_a.size(); i-- > 0;) from_a[i] = from_a[i + 1] + chances_a[i];
  const auto is_less = [&](std::size_t a, std::size_t b) {
    const Ones ones_a{of_a.first + static_cast<double>(a), all_a}, ones_b{of_b.first + static_cast<double>(b), all_b};
    return DifferenceOfShares(ones_a, ones_b, paired, no_spread).upper(level) <= margin;
  };
  double sum = 0;
  for (std::size_t b = 0, a = 0; b < of_b.chances.size() && a < chances_a.size(); ++b) {
    while (a < chances_a.size() && !is_less(a, b)) ++a;
    sum += of_b.chances[b] * from_a[a];
  }
  return sum;
}

TEST(DifferenceOfShares, ItsLimitRisesWithTheOnesOfBAndFallsWithThoseOfA) {
  for (const bool paired : {true, false}) {
    for (const double level : {0.05, 0.005}) {
      for (double a = 0; a < 20; ++a) {
        for (double b = 0; b < 20; ++b) {
          const auto upper = [&](double of_a, double of_b) {
            return DifferenceOfShares({of_a, 1000}, {of_b, 1000}, paired, no_spread).upper(level);
          };
          EXPECT_LT(upper(a, b), upper(a, b + 1)) << a << ' ' << b;
          EXPECT_LT(upper(a + 1, b), upper(a, b)) << a << ' ' << b;
          EXPECT_GT(upper(a, b), (b - a) / 1000);
        }
      }
    }
  }
}

TEST(DifferenceOfShares, LimitsOfSwappedSidesAreEachOthers) {
  const Ones few{3, 500}, many{11, 700};
  const Estimate blocks{0, 0.01, 9};
  const DifferenceOfShares forth(few, many, false, blocks), back(many, few, false, blocks);
  EXPECT_EQ(forth.upper(0.05), -back.lower(0.05));
  EXPECT_EQ(forth.lower(0.05), -back.upper(0.05));
  EXPECT_NEAR(forth.mean(), 11.0 / 700 - 3.0 / 500, 1e-15);
  const Interval interval = interval_of(forth, 5);
  EXPECT_EQ(interval.low, forth.lower(0.005));
  EXPECT_EQ(interval.high, forth.upper(0.005));
}

/// No request of n with a share of x has a one with the probability (1 - x)^n.
TEST(DifferenceOfShares, WithoutAOneIsWhatSoManyRequestsLeaveOpen) {
  for (const double n : {100.0, 1500.0, 10'000.0}) {
    for (const double times : {1.0, 3.0, 20.0, 0.1}) {
      for (const double level : {0.05, 0.025, 0.01, 0.005}) {
        const double open = -std::log(level) / n;
        EXPECT_NEAR(DifferenceOfShares({0, n}, {0, n}, true, no_spread).upper(level), open, 1e-6 * open);
        const double split = DifferenceOfShares({0, times * n}, {0, n}, false, no_spread).upper(level);
        EXPECT_NEAR(std::pow(1 - split, n), level, 1e-6 * level);
      }
    }
  }
}

/// scipy: gamma.isf(0.05, b + 1), gamma.ppf(0.05, a), beta.isf(0.05, b + 1, n - b), beta.ppf(0.05, a, n - a + 1); where
/// pairs have ones on both sides brentq of poisson.cdf(b, x) - poisson.pmf(b, x) / 4 - 0.05.
TEST(DifferenceOfShares, AgreesWithScipy) {
  struct Case {
    bool paired;
    double a, all_a, b, all_b, upper;
  };
  for (const auto& c : {Case{true, 0, 1000, 3, 1000, 0.007753656528},
        Case{true, 1, 1500, 1, 1500, 0.002395502080},
        Case{true, 5, 3000, 5, 3000, 0.002019182692},
        Case{true, 12, 10000, 4, 10000, -0.000095577429},
        Case{true, 120, 20000, 131, 20000, 0.001883901827},
        Case{false, 0, 3000, 2, 1000, 0.006282284547},
        Case{false, 30, 20000, 1, 200, 0.022003240076},
        Case{false, 40, 200, 50, 200, 0.121709416228},
        Case{false, 600, 2000, 640, 2000, 0.044382857226},
        Case{false, 1, 200, 30, 20000, 0.001273526850}}) {
    const DifferenceOfShares difference({c.a, c.all_a}, {c.b, c.all_b}, c.paired, no_spread);
    EXPECT_NEAR(difference.upper(0.05), c.upper, 1e-9) << c.a << ' ' << c.b << ' ' << c.paired;
  }
}

/// b is worse by exactly the margin, in ones that are expected; a has `alone` without b.
TEST(DifferenceOfShares, OfPairsIsWronglySaidToBeLessInAsManyWindowsAsTheLevelAllows) {
  for (const double level : {0.05, 0.01}) {
    double worst = 0;
    for (double margin = 2.5; margin < 45; margin *= 1.11) {
      for (const double alone : {0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.5, 4.0, 7.0, 12.0, 25.0, 60.0}) {
        const double wrong =
            said_to_be_less(margin / 1e4, level, true, poisson(alone), 1e4, poisson(alone + margin), 1e4);
        worst = std::max(worst, wrong);
        EXPECT_LE(wrong, 1.03 * level) << margin << ' ' << alone << ' ' << level;
      }
    }
    EXPECT_GT(worst, 0.95 * level) << "a more careful limit would cost requests";
  }
}

/// Sides of 200 to 200,000 requests, of which b has a hundredth to as many as a.
TEST(DifferenceOfShares, OfASplitIsWronglySaidToBeLessInAsManyWindowsAsTheLevelAllows) {
  struct Sides {
    double a, b;
  };
  for (const auto& [all_a, all_b] :
       {Sides{200, 200}, {2000, 2000}, {20'000, 20'000}, {20'000, 2000}, {20'000, 200}, {200'000, 2000}}) {
    for (const double share : {0.0, 0.0005, 0.003, 0.01, 0.03, 0.1, 0.3}) {
      if (all_a * share > 700) continue;  // Like those of fewer, and takes seconds.
      for (const double margin : {0.002, 0.01, 0.05}) {
        const double wrong = said_to_be_less(margin, 0.05, false, binomial(all_a, share), all_a,
                                             binomial(all_b, share + margin), all_b);
        EXPECT_LE(wrong, 0.0505) << all_a << ' ' << all_b << ' ' << share << ' ' << margin;
      }
    }
  }
}

/// In so many windows 0.2 points are known of equal sides, each of which has this share of misses alone.
TEST(DifferenceOfShares, OfEqualSidesWithFewMissesIsKnownSoon) {
  struct Case {
    double share, pairs, known;
  };
  for (const auto& c :
       {Case{0, 1490, 0.0}, Case{0, 1500, 1.0}, Case{0.0002, 1500, 0.749}, Case{0.0002, 2400, 0.922},
        Case{0.0005, 2400, 0.739}, Case{0.0005, 4000, 0.947}, Case{0.001, 4000, 0.798}, Case{0.001, 8000, 0.975}}) {
    const Law law = poisson(c.share * c.pairs);
    EXPECT_NEAR(said_to_be_less(0.002, 0.05, true, law, c.pairs, law, c.pairs), c.known, 0.01)
        << c.share << ' ' << c.pairs;
  }
}

/// The jackknife counts where blocks are unlike, and by the chance of the numbers alone it does not.
TEST(DifferenceOfShares, TakesTheErrorOfUnlikeBlocks) {
  const auto upper = [](double error) {
    return DifferenceOfShares({50, 1000}, {50, 1000}, true, {0, error, 9}).upper(0.05);
  };
  const double by_chance = std::sqrt(101.0) / 1000, t = t_two_sided(0.9, 9);
  EXPECT_EQ(upper(by_chance), upper(0));
  EXPECT_EQ(upper(1.18 * by_chance), upper(0));
  for (const double times : {1.2, 2.0, 5.0}) EXPECT_NEAR(upper(times * by_chance), times * by_chance * t, 1e-12);
  EXPECT_LT(upper(0), 1.85 * by_chance);
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
