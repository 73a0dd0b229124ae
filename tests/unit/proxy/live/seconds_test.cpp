#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "bucket_counts.hpp"
#include "metrics/compare/statistics/intervals.hpp"
#include "proxy/live/seconds.hpp"

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

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Beside a list of all requests.
TEST(Latencies, AreThoseOfTheLastMinuteAndOfTheLastThousand) {
  std::mt19937 random(3);
  std::lognormal_distribution<float> value(0, 1);
  struct One {
    metrics::Moment at;
    std::optional<float> ttft, tpot;
  };
  std::vector<One> all;
  Latencies latencies;
  metrics::Moment now{};
  for (int i = 0; i < 5000; ++i) {
    now += milliseconds(random() % (i < 2500 ? 20 : 200));
    One one{now, {}, {}};
    if (random() % 4 != 0) one.ttft = value(random);
    if (random() % 4 != 0) one.tpot = value(random);
    latencies.add(one.ttft, one.tpot, now);
    if (one.ttft || one.tpot) all.push_back(one);
    if (i % 97 != 0) continue;
    for (const auto back : {seconds(60), seconds(10)}) {
      std::vector<float> ttft, tpot;
      const auto from = all.size() - std::min(all.size(), Latencies::most);
      for (const auto& known : std::span(all).subspan(from)) {
        if (now - known.at > back) continue;
        if (known.ttft) ttft.push_back(*known.ttft);
        if (known.tpot) tpot.push_back(*known.tpot);
      }
      const auto got = latencies.quantiles(now, back);
      using metrics::compare::statistics::quantile;
      ASSERT_EQ(got.ttft_p50.has_value(), !ttft.empty());
      if (got.ttft_p50) ASSERT_DOUBLE_EQ(*got.ttft_p50, quantile(std::span(ttft), 0.5));
      ASSERT_EQ(got.ttft_p95.has_value(), ttft.size() >= Latencies::least_for_p95);
      if (got.ttft_p95) ASSERT_DOUBLE_EQ(*got.ttft_p95, quantile(std::span(ttft), 0.95));
      ASSERT_EQ(got.tpot_p50.has_value(), !tpot.empty());
      if (got.tpot_p50) ASSERT_DOUBLE_EQ(*got.tpot_p50, quantile(std::span(tpot), 0.5));
    }
  }
}

std::vector<std::uint64_t> bounds_of(double step) {
  std::vector<std::uint64_t> bounds;
  for (double bound = 1000; bound < 1e6; bound *= step) bounds.push_back(static_cast<std::uint64_t>(bound));
  return bounds;
}

TEST(Recent, AQuantileLiesInTheBucketOfTheExactOne) {
  const auto bounds = bounds_of(1.1);
  std::mt19937 random(2);
  std::lognormal_distribution<double> value(std::log(20'000), 0.5);
  metrics::series::Histogram histogram(bounds);
  Recent recent;
  recent.take(bounds, counts_of(histogram), 1);
  std::vector<double> all;
  for (int i = 0; i < 200; ++i) {
    for (int n = 0; n < 10; ++n) {
      all.push_back(std::floor(value(random)));
      histogram.observe(static_cast<std::uint64_t>(all.back()));
    }
    recent.take(bounds, counts_of(histogram), 1);
    std::ranges::sort(all);
    ASSERT_DOUBLE_EQ(recent.count(), static_cast<double>(all.size()));
    for (const double q : {0.1, 0.5, 0.9}) {
      // The quantile of a histogram is that of the value at which so many are below or equal.
      const auto exact = all[static_cast<std::size_t>(std::ceil(q * static_cast<double>(all.size()))) - 1];
      ASSERT_NEAR(*recent.quantile(q) / exact, 1, 0.11) << q;
      ASSERT_GE(*recent.bound_of_quantile(q), exact);
    }
  }
}

TEST(Recent, HalfOfTheMemoryLaterTheMedianIsThatOfTheNew) {
  const auto bounds = bounds_of(1.1);
  metrics::series::Histogram histogram(bounds);
  Recent recent;
  const double fade = std::exp(-1.0 / 10);
  for (int second = 0; second < 100; ++second) {
    histogram.observe(20'000, 50);
    recent.take(bounds, counts_of(histogram), fade);
  }
  EXPECT_NEAR(*recent.quantile(0.5), 20'000, 2000);
  int seconds = 0;
  while (*recent.quantile(0.5) < 30'000 && ++seconds < 60) {
    histogram.observe(40'000, 50);
    recent.take(bounds, counts_of(histogram), fade);
  }
  EXPECT_NEAR(seconds, 10 * std::log(2), 1);
  for (int second = 0; second < 100; ++second) recent.take(bounds, counts_of(histogram), fade);
  EXPECT_FALSE(recent.quantile(0.5)) << "nothing has come for ten times the memory";
}

/// A slow replica gets few requests. What it did before, with many, does not hide it for longer.
TEST(Recent, ManyOldOnesDoNotHideFewNewOnes) {
  const auto bounds = bounds_of(1.1);
  metrics::series::Histogram histogram(bounds);
  Recent recent;
  const double fade = std::exp(-1.0 / 10);
  for (int second = 0; second < 100; ++second) {
    histogram.observe(20'000, 800);
    recent.take(bounds, counts_of(histogram), fade, 20);
  }
  EXPECT_LE(recent.count(), 20 / (1 - fade));
  int seconds = 0;
  while (*recent.quantile(0.5) < 30'000 && ++seconds < 60) {
    histogram.observe(40'000, 25);
    recent.take(bounds, counts_of(histogram), fade, 20);
  }
  EXPECT_NEAR(seconds, 10 * std::log(2), 1);
}

TEST(Recent, OtherBoundsKeepWhatIsKnown) {
  const auto before = bounds_of(1.1);
  auto after = before;
  after.insert(std::ranges::upper_bound(after, 19'500u), 19'500);
  metrics::series::Histogram histogram(before);
  Recent recent;
  recent.take(before, counts_of(histogram), 1);
  histogram.observe(20'000, 100);
  recent.take(before, counts_of(histogram), 1);
  histogram.rebound(after);
  recent.take(after, counts_of(histogram), 1);
  EXPECT_DOUBLE_EQ(recent.count(), 100);
  EXPECT_EQ(recent.came(), 0);
  EXPECT_NEAR(*recent.quantile(0.5), 20'000, 2000);
  histogram.observe(40'000, 300);
  recent.take(after, counts_of(histogram), 1);
  EXPECT_DOUBLE_EQ(recent.count(), 400);
  EXPECT_EQ(recent.came(), 300);
  EXPECT_NEAR(*recent.quantile(0.5), 40'000, 4000);
}

TEST(Recent, BeyondAllBoundsTheBoundIsInfinite) {
  const std::vector<std::uint64_t> bounds{10, 20};
  metrics::series::Histogram histogram(bounds);
  Recent recent;
  recent.take(bounds, counts_of(histogram), 1);
  histogram.observe(30, 10);
  recent.take(bounds, counts_of(histogram), 1);
  EXPECT_EQ(*recent.quantile(0.5), 20);
  EXPECT_TRUE(std::isinf(*recent.bound_of_quantile(0.5)));
}

}  // namespace
}  // namespace weir::proxy::live
