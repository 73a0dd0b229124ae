#include "metrics/compare/statistics/share_ratio.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::statistics {
namespace {

constexpr Window ten_blocks{1000, 2000};

/// Values of 0 or 1, or of 1 to 500, at random moments; of pairs or not.
SideValues any_values(std::mt19937_64& random, bool paired, bool shares) {
  SideValues values;
  values.paired = paired;
  const std::size_t n = 300 + random() % 400, ones = 1 + random() % 12;
  const auto moment = [&] { return 900 + static_cast<std::int64_t>(random() % 1200); };
  const auto value = [&] {
    return shares ? (random() % ones == 0 ? 1.0 : 0.0) : 1.0 + static_cast<double>(random() % 500);
  };
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t at = moment();
    values.a.push_back({at, value()});
    if (paired || random() % 3) values.b.push_back({paired ? at : moment(), value()});
  }
  return values;
}

/// Computes anew what is there without a block; 10 is none.
struct Means {
  double a = 0, b = 0;
};
Means means(const SideValues& values, std::size_t without, double more) {
  const auto sum_and_count = [&](const std::vector<Point>& points) {
    double sum = 0, count = 0;
    for (const Point& point : points) {
      if (point.at_us < 1000 || point.at_us >= 2000) continue;
      if (static_cast<std::size_t>((point.at_us - 1000) / 100) == without) continue;
      sum += point.value;
      ++count;
    }
    return std::pair(sum, count);
  };
  const auto [sum_a, count_a] = sum_and_count(values.a);
  const auto [sum_b, count_b] = sum_and_count(values.b);
  const double all = count_a + count_b;
  return {(sum_a + 2 * more * count_a / all) / count_a, (sum_b + 2 * more * count_b / all) / count_b};
}
double log_ratio(const SideValues& values, std::size_t without, double more) {
  const Means of = means(values, without, more);
  return std::log(of.b / of.a);
}
double difference(const SideValues& values, std::size_t without) {
  const Means of = means(values, without, 0);
  return of.b - of.a;
}
/// Ones that a side of pairs has alone, or all of a side; the jackknife's error of their difference.
DifferenceOfShares naive_difference(const SideValues& values) {
  Ones a, b;
  const auto count = [](Ones& side, const Point& one, const Point* other) {
    if (!ten_blocks.holds(one.at_us)) return;
    ++side.all;
    side.ones += one.value == 1 && (!other || other->value == 0) ? 1 : 0;
  };
  for (std::size_t i = 0; i < values.a.size(); ++i) count(a, values.a[i], values.paired ? &values.b[i] : nullptr);
  for (std::size_t i = 0; i < values.b.size(); ++i) count(b, values.b[i], values.paired ? &values.a[i] : nullptr);
  BlockValues blocks{};
  for (std::size_t block = 0; block < 10; ++block)
    blocks[block] = 10 * difference(values, 10) - 9 * difference(values, block);
  return {a, b, values.paired, estimate_of(blocks).value()};
}
/// Adds a one to the sum of a side.
SideValues with_one_more(SideValues values, std::vector<Point> SideValues::*side) {
  for (Point& point : values.*side) {
    if (!ten_blocks.holds(point.at_us)) continue;
    point.value += 1;
    break;
  }
  return values;
}

TEST(ShareRatio, IsANaiveJackknife) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    const bool shares = i % 2;
    const SideValues values = any_values(random, i % 4 < 2, shares);
    const double more = shares ? 0.5 : 0;
    const Ratio ratio = shares ? share_ratio(values, ten_blocks) : mean_ratio(values, ten_blocks);
    const double whole = log_ratio(values, 10, more);
    EXPECT_NEAR(ratio.log, whole, 1e-12);
    // A one more on either side moves the logarithm by so much, so no error of it is less.
    const auto moves = [&](auto side) { return log_ratio(with_one_more(values, side), 10, more) - whole; };
    const double least = shares ? std::hypot(moves(&SideValues::a), moves(&SideValues::b)) : 0;
    double sum = 0, squares = 0;
    for (std::size_t block = 0; block < 10; ++block) sum += log_ratio(values, block, more) / 10;
    for (std::size_t block = 0; block < 10; ++block) {
      const double without = log_ratio(values, block, more);
      squares += (without - sum) * (without - sum);
      EXPECT_NEAR(ratio.blocks[block], 10 * whole - 9 * without, 1e-9);
    }
    ASSERT_TRUE(ratio.estimate);
    EXPECT_EQ(ratio.estimate->mean, ratio.log);
    EXPECT_EQ(ratio.estimate->degrees, 9);
    EXPECT_NEAR(ratio.estimate->standard_error, std::max(least, std::sqrt(0.9 * squares)), 1e-9);
    ASSERT_EQ(ratio.difference.has_value(), shares);
    if (shares) {
      EXPECT_NEAR(ratio.difference->mean(), difference(values, 10), 1e-12);
      EXPECT_EQ(ratio.difference->upper(0.05), naive_difference(values).upper(0.05));
    }
  }
}

TEST(ShareRatio, OfPairsSwapsItsSign) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 50; ++i) {
    SideValues values = any_values(random, true, i % 2);
    const auto of = [&] { return i % 2 ? share_ratio(values, ten_blocks) : mean_ratio(values, ten_blocks); };
    const Ratio forth = of();
    std::swap(values.a, values.b);
    const Ratio back = of();
    EXPECT_NEAR(forth.log, -back.log, 1e-12);
    EXPECT_NEAR(forth.estimate->standard_error, back.estimate->standard_error, 1e-12);
    EXPECT_EQ(forth.a, back.b);
    EXPECT_EQ(forth.b, back.a);
  }
}

TEST(ShareRatio, CountsHalfACaseMoreSoThatNoneIsARatioToo) {
  SideValues values;
  values.paired = true;
  for (std::int64_t i = 0; i < 1000; ++i) {
    values.a.push_back({1000 + i, 0});
    values.b.push_back({1000 + i, i % 100 == 7 ? 1.0 : 0.0});
  }
  const Ratio ratio = share_ratio(values, ten_blocks);
  EXPECT_NEAR(ratio.log, std::log(10.5 / 0.5), 1e-12);
  EXPECT_EQ(ratio.a, 0);
  EXPECT_EQ(ratio.b, 0.01);
  EXPECT_NEAR(ratio.estimate->standard_error, std::hypot(std::log(3), std::log(11.5 / 10.5)), 1e-9)
      << "each block has one case, and the next request may be one of the other side";
  values.b = values.a;
  EXPECT_EQ(share_ratio(values, ten_blocks).log, 0);
}

/// No ones among so many values of each side.
SideValues none_of(std::int64_t of_a, std::int64_t of_b) {
  SideValues values;
  for (const auto& [n, side] : {std::pair(of_a, &values.a), std::pair(of_b, &values.b)})
    for (std::int64_t i = 0; i < n; ++i) side->push_back({1000 + 1000 * i / n, 0});
  return values;
}

/// A share of the margin goes unseen with the probability that is allowed, and in a split, too: with a twentieth of the
/// requests b had none in 16 % of windows in which its share was above a's by the margin, and was not worse.
TEST(ShareRatio, WithoutAOneIsNotWorseOnlyFromAsManyRequestsOnAsTheMarginTakes) {
  constexpr double margin = 0.002;
  for (const unsigned looks : {1u, 5u}) {
    for (const std::int64_t times : {1, 20}) {
      std::int64_t n = 1000;
      const auto is_not_worse = [&] {
        Effect effect{.looks = looks, .worse_points = margin};
        effect.difference = share_ratio(none_of(times * n, n), ten_blocks).difference;
        return is_below_worse_points(effect);
      };
      while (!is_not_worse()) n += 10;
      EXPECT_NEAR(std::pow(1 - margin, static_cast<double>(n)), 0.05 / looks, 0.002) << looks << ' ' << times;
    }
  }
}

TEST(ShareRatio, OfSidesOfOneShareIsOneWhateverTheirSizes) {
  for (const std::int64_t every : {1, 3, 20}) {
    for (const double share : {0.0, 1.0}) {
      SideValues values;
      for (std::int64_t i = 0; i < 1000; ++i) {
        values.a.push_back({1000 + i, share});
        if (i % every == 0) values.b.push_back({1000 + i, share});
      }
      const Ratio ratio = share_ratio(values, ten_blocks);
      EXPECT_NEAR(ratio.log, 0, 1e-12) << every << ' ' << share;
      ASSERT_TRUE(ratio.estimate);
      EXPECT_GT(ratio.estimate->standard_error, 0);
    }
  }
}

/// The next answer is as long as the others: a one more says nothing of lengths.
TEST(ShareRatio, OfMeansThatDoNotVaryHasNoError) {
  for (const double length : {0.25, 1.0, 500.0}) {
    SideValues values;
    values.paired = true;
    for (std::int64_t i = 0; i < 100; ++i) values.a.push_back({1000 + 10 * i, length});
    values.b = values.a;
    const Ratio ratio = mean_ratio(values, ten_blocks);
    ASSERT_TRUE(ratio.estimate);
    EXPECT_NEAR(ratio.estimate->standard_error, 0, 1e-12) << length;
  }
}

TEST(ShareRatio, NeedsValuesInEveryBlock) {
  std::mt19937_64 random(3);
  SideValues values = any_values(random, false, true);
  std::erase_if(values.b, [](const Point& point) { return point.at_us / 100 == 13; });
  const Ratio ratio = share_ratio(values, ten_blocks);
  EXPECT_FALSE(ratio.estimate);
  EXPECT_FALSE(ratio.difference);
  EXPECT_TRUE(std::isfinite(ratio.log));
  for (std::size_t block = 0; block < 10; ++block) EXPECT_EQ(std::isnan(ratio.blocks[block]), block == 3);
  values.b.clear();
  EXPECT_TRUE(std::isnan(share_ratio(values, ten_blocks).log));
  EXPECT_TRUE(std::isnan(mean_ratio(values, ten_blocks).b));
  EXPECT_FALSE(mean_ratio(SideValues{}, ten_blocks).estimate);
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
