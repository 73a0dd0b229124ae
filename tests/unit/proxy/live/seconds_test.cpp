#include "proxy/live/seconds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace weir::proxy::live {
namespace {

/// Beside a list of all seconds: some are missed, and the row is not there in others.
TEST(Seconds, HaveTheSumsAndTheNumbersOfTheLastSeconds) {
  std::mt19937 random(4);
  for (const bool wide : {false, true}) {
    Seconds row(2, 1);
    row.set_wide(wide);
    std::vector<std::optional<double>> all;
    bool there = true;
    for (int i = 0; i < 3000; ++i) {
      const std::size_t passed = random() % 50 == 0 ? 1 + random() % 30 : 1;
      if (i > 0) {
        row.step(passed);
        all.insert(all.end(), passed - 1, std::nullopt);
      }
      if (random() % 100 == 0) there = !there;
      if (there || i == 0) {
        double count = 0;
        for (auto n = random() % 3; n > 0; --n) {
          const double more = random() % 1000;
          for (const std::size_t column : {0u, 1u}) row.add(column, more);
          count += more;
        }
        row.put();
        all.emplace_back(count);
      } else {
        all.emplace_back();
      }
      const auto last = [&](std::size_t n) {
        return std::vector(all.end() - static_cast<std::ptrdiff_t>(std::min(n, all.size())), all.end());
      };
      const auto sum = [&](std::size_t n) {
        double sum = 0;
        for (const auto& one : last(n)) sum += one.value_or(0);
        return sum;
      };
      for (const std::size_t column : {0u, 1u}) {
        ASSERT_DOUBLE_EQ(row.sum(column), sum(60));
        ASSERT_DOUBLE_EQ(row.per_second(column), sum(10) / static_cast<double>(std::min<std::size_t>(10, all.size())));
        ASSERT_EQ(row.last(column), all.back());
      }
      if (i % 37 != 0) continue;
      for (const std::size_t most : {1u, 60u, 900u, 1800u}) {
        const auto got = row.numbers(0, most);
        const auto want = last(std::min<std::size_t>(most, wide ? 900 : 60));
        ASSERT_EQ(got.size(), want.size());
        std::optional<double> peak;
        for (std::size_t k = 0; k < got.size(); ++k) {
          ASSERT_TRUE(want[k] ? got[k] == static_cast<float>(*want[k]) : std::isnan(got[k])) << k;
          if (want[k]) peak = std::max(peak.value_or(*want[k]), *want[k]);
        }
        if (most >= 900) ASSERT_EQ(row.peak(0), peak);
      }
    }
  }
}

TEST(Seconds, ACountersFirstLookIsNoneAndNothingGoesBackwards) {
  Seconds row(1, 0);
  const auto counted = [&](double counter) {
    row.put();
    row.follow(0, counter);
    const auto last = row.last(0);
    row.step(1);
    return last;
  };
  EXPECT_EQ(counted(1000), 0);
  EXPECT_EQ(counted(1003), 3);
  EXPECT_EQ(counted(7), 0);
  EXPECT_EQ(counted(8), 1);
  row.step(1);
  EXPECT_EQ(counted(100), 0) << "what it did while it was away belongs to no second";
  EXPECT_EQ(row.sum(0), 4);
}

TEST(Seconds, ASecondThatGoesOnCountsOnce) {
  Seconds row(2, 1);
  row.add(0, 2);
  row.put();
  row.set(1, std::nullopt);
  row.step(0);
  row.add(0, 3);
  row.put();
  EXPECT_EQ(row.last(0), 5);
  EXPECT_EQ(row.last(1), std::nullopt) << "unknown is not none";
}

TEST(Seconds, ARowKeepsItsLastMinuteWhenItIsDrawnAndWhenItIsDrawnNoMore) {
  Seconds row(1, 1);
  const auto numbers = [&] { return row.numbers(0, 900).size(); };
  for (const bool wide : {false, true, false}) {
    row.set_wide(wide);
    for (int i = 0; i < 100; ++i) {
      row.add(0);
      row.put();
      row.step(1);
    }
    EXPECT_EQ(row.sum(0), 59) << "and the second that has just begun";
  }
  EXPECT_EQ(numbers(), 60u);
}

TEST(Seconds, AnotherThingOfTheNameBeginsAnewAndItsDrawingGoesOn) {
  Seconds row(1, 1);
  row.set_wide(true);
  for (int i = 0; i < 5; ++i) {
    row.add(0, 4);
    row.put();
    row.step(1);
  }
  row.begin_anew();
  row.put();
  EXPECT_EQ(row.sum(0), 0);
  EXPECT_EQ(row.per_second(0), 0);
  EXPECT_EQ(row.peak(0), 4);
  EXPECT_FALSE(row.presence().is_gone());
  row.step(900);
  EXPECT_TRUE(row.presence().is_gone());
}

}  // namespace
}  // namespace weir::proxy::live
