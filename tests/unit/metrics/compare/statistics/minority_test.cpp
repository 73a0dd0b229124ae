#include "metrics/compare/statistics/minority.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>

namespace weir::metrics::compare::statistics {
namespace {

constexpr Window of_minority{1000, 2000};

/// Pairs at random moments, some of them outside the window, whose ratio is `usual`, give or take what `spread` draws,
/// and now and then far from it.
SideValues pairs_around(std::mt19937_64& random, double usual, double spread) {
  SideValues values;
  values.paired = true;
  const std::size_t n = 200 + random() % 300;
  std::normal_distribution<double> noise;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t at = 900 + static_cast<std::int64_t>(random() % 1200);
    double ratio = usual * std::exp(spread * noise(random));
    if (random() % 10 == 0) ratio *= std::exp(3 * noise(random));
    const double a = 0.01 + static_cast<double>(random() % 1000) / 1000;
    values.a.push_back({at, a});
    values.b.push_back({at, a * ratio});
  }
  return values;
}

/// The minority's part of the mean in one block, told in words: the pairs' ratios in order, each over the middle one.
double naive_minority(const SideValues& values, std::size_t block, double factor) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < values.a.size(); ++i) {
    const std::int64_t at = values.a[i].at_us;
    if (at < 1000 || at >= 2000 || static_cast<std::size_t>((at - 1000) / 100) != block) continue;
    ratios.push_back(values.b[i].value / values.a[i].value);
  }
  std::ranges::sort(ratios);
  const std::size_t half = ratios.size() / 2;
  const double middle = ratios.size() % 2 ? ratios[half] : std::sqrt(ratios[half - 1] * ratios[half]);
  double sum = 0;
  for (const double ratio : ratios) {
    const double times = std::min(10.0, std::max(ratio / middle, 0.1));
    if (times > factor) sum += std::log(times / factor);
    if (times < 1 / factor) sum += std::log(times * factor);
  }
  return sum / static_cast<double>(ratios.size());
}

TEST(Minority, IsANaiveMean) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const SideValues values = pairs_around(random, 0.5 + static_cast<double>(random() % 100) / 50, 0.3);
    const double factor = round % 2 ? 1.5 : 1.2;
    const Ratio found = minority(values, of_minority, factor);
    double sum = 0;
    for (std::size_t block = 0; block < block_count; ++block) {
      const double expected = naive_minority(values, block, factor);
      EXPECT_NEAR(found.blocks[block], expected, 1e-9) << block;
      sum += expected / 10;
    }
    ASSERT_TRUE(found.estimate);
    EXPECT_NEAR(found.estimate->mean, sum, 1e-9);
    EXPECT_NEAR(found.log, sum, 1e-9);
    EXPECT_EQ(found.estimate->degrees, 9);
    EXPECT_FALSE(found.difference);
  }
}

TEST(Minority, ChangesItsSignWithTheSidesAndNotWithTheirUnits) {
  std::mt19937_64 random(2);
  constexpr double factor = 1.5;
  for (int round = 0; round < 100; ++round) {
    SideValues values = pairs_around(random, 1, 0.5);
    const Ratio forth = minority(values, of_minority, factor);
    for (Point& b : values.b) b.value *= 1.3;
    const Ratio slower = minority(values, of_minority, factor);
    EXPECT_NEAR(slower.log, forth.log, 1e-9) << "all pairs are slower, not a minority";
    EXPECT_NEAR(slower.b, forth.b, 1e-12);
    std::swap(values.a, values.b);
    const Ratio back = minority(values, of_minority, factor);
    EXPECT_NEAR(back.log, -forth.log, 1e-9);
    EXPECT_NEAR(back.estimate->standard_error, forth.estimate->standard_error, 1e-9);
    EXPECT_EQ(back.a, slower.b);
    EXPECT_EQ(back.b, slower.a);
  }
}

/// 100 pairs a block, of which `slow` take `times` as long on b.
Ratio slow_pairs(int slow, double times, double factor) {
  SideValues values;
  values.paired = true;
  for (std::int64_t i = 0; i < 1000; ++i) {
    values.a.push_back({1000 + i, 0.2});
    values.b.push_back({1000 + i, i % 100 < slow ? 0.2 * times : 0.2});
  }
  return minority(values, of_minority, factor);
}

TEST(Minority, IsTheShareOfSlowPairsTimesHowFarTheyAreBeyondTheFactor) {
  struct Case {
    int slow;
    double times, factor, expected, share_b;
  };
  for (const auto& [slow, times, factor, expected, share_b] :
       {Case{0, 1, 1.5, 0, 0}, Case{2, 2, 1.5, 0.02 * std::log(2 / 1.5), 0.02},
        Case{2, 2, 1.2, 0.02 * std::log(2 / 1.2), 0.02}, Case{5, 3, 1.5, 0.05 * std::log(3 / 1.5), 0.05},
        Case{2, 10, 1.5, 0.02 * std::log(10 / 1.5), 0.02}, Case{2, 1000, 1.5, 0.02 * std::log(10 / 1.5), 0.02},
        Case{2, 1.49, 1.5, 0, 0}}) {
    const Ratio found = slow_pairs(slow, times, factor);
    EXPECT_NEAR(found.log, expected, 1e-9) << slow << " times " << times;
    EXPECT_NEAR(found.b, share_b, 1e-9);
    EXPECT_EQ(found.a, 0);
  }
}

/// Ten pairs of which none is slow on either side were taken for proof that no minority is.
TEST(Minority, OfNoPairIsNotKnownBeforeAPairMoreWouldNotMatter) {
  for (const double factor : {1.2, 1.5}) {
    const double moves = std::log(10 / factor) / 1000;
    EXPECT_NEAR(slow_pairs(0, 1, factor).estimate->standard_error, std::hypot(moves, moves), 1e-12);
    EXPECT_GE(slow_pairs(2, 10, factor).estimate->standard_error, std::hypot(moves, moves) - 1e-12);
  }
  const auto finding = [](int pairs) {
    SideValues values;
    values.paired = true;
    for (std::int64_t i = 0; i < pairs; ++i) values.a.push_back({1000 + 1000 * i / pairs, 0.2});
    values.b = values.a;
    Effect effect{.metric = Metric::ttft_minority, .margin = 0.002};
    effect.estimate = minority(values, of_minority, 1.5).estimate;
    return decide(std::span(&effect, 1)).front().finding;
  };
  EXPECT_EQ(finding(10), Finding::inconclusive);
  EXPECT_EQ(finding(3000), Finding::inconclusive);
  EXPECT_EQ(finding(3100), Finding::equivalent);
}

TEST(Minority, NeedsPairsInEveryBlock) {
  std::mt19937_64 random(3);
  constexpr double factor = 1.5;
  SideValues values = pairs_around(random, 1, 0.1);
  for (auto* const side : {&values.a, &values.b})
    std::erase_if(*side, [](const Point& point) { return point.at_us / 100 == 14; });
  const Ratio found = minority(values, of_minority, factor);
  EXPECT_FALSE(found.estimate);
  EXPECT_TRUE(std::isfinite(found.log));
  for (std::size_t block = 0; block < block_count; ++block) EXPECT_EQ(std::isnan(found.blocks[block]), block == 4);
  const Ratio none = minority({}, of_minority, 1.5);
  EXPECT_TRUE(std::isnan(none.log));
  EXPECT_TRUE(std::isnan(none.b));
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
