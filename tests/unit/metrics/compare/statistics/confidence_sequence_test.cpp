#include "metrics/compare/statistics/confidence_sequence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::statistics {
namespace {

constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

// Both were computed in Python by the formulas of the header.
TEST(ConfidenceSequence, HasTheIntervalAndThePOfTheNormalMixture) {
  const Sequence short_one{0.03, 5, 0.0004}, long_one{0.03, 60, 0.008};
  EXPECT_NEAR(interval_of(short_one).low, -0.0009852487035678995, 1e-9);
  EXPECT_NEAR(interval_of(long_one).high, 0.0653508939286202, 1e-9);
  EXPECT_NEAR(p_value_beyond(0.05, short_one), 0.00020830031331914235, 1e-9);
  EXPECT_NEAR(p_value_beyond(0.05, long_one), 0.0006072809889869884, 1e-9);
  EXPECT_EQ(p_value_beyond(0, short_one), 1);
  EXPECT_EQ(p_value_beyond(-1, short_one), 1);
  EXPECT_EQ(p_value_beyond(0.001, Sequence{0, 5, 0}), 0) << "where nothing varies nothing is chance";
}

TEST(ConfidenceSequence, TheIntervalEndsWherePIsFivePercent) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> share(0, 1);
  for (int i = 0; i < 1000; ++i) {
    const Sequence sequence{share(random) - 0.5, std::floor(5 + 500 * share(random)), std::exp(-10 * share(random))};
    const Interval interval = interval_of(sequence);
    EXPECT_NEAR(interval.high - sequence.mean, sequence.mean - interval.low, 1e-12);
    EXPECT_NEAR(p_value_beyond(sequence.mean - interval.low, sequence), 0.05, 1e-9);
  }
}

TEST(ConfidenceSequence, CountsKnownMinutesAndTakesTheGreaterVariance) {
  const Minutes minutes{0.1, no_value, 0.2, 0.3, no_value, 0.4};
  EXPECT_EQ(known_minutes(minutes), 4u);
  EXPECT_FALSE(sequence_of(minutes, 1, std::nullopt));
  const Minutes five{0.1, no_value, 0.2, 0.3, 0.4, 0.5};
  const auto sequence = sequence_of(five, 0.001, std::nullopt);
  ASSERT_TRUE(sequence);
  EXPECT_NEAR(sequence->mean, 0.3, 1e-12);
  EXPECT_EQ(sequence->minutes, 5);
  EXPECT_EQ(sequence->variance, 0.001);
  EXPECT_EQ(sequence_of(five, 0.001, Estimate{0, 0.01, 9})->variance, 0.001);
  EXPECT_NEAR(sequence_of(five, 0.001, Estimate{0, 0.1, 9})->variance, 0.05, 1e-12);
}

/// Returns in how many of 100 days of equals a look each minute calls them different. Minutes older than `ring` leave.
double called_different(std::size_t ring) {
  constexpr std::size_t day = 1440;
  constexpr int days = 400;
  std::mt19937_64 random(11);
  std::normal_distribution<double> noise;
  int called = 0;
  for (int i = 0; i < days; ++i) {
    std::vector<double> sums{0};
    bool different = false;
    for (std::size_t t = 1; t <= day; ++t) {
      sums.push_back(sums.back() + noise(random));
      const auto held = std::min(t, ring);
      const Sequence sequence{(sums[t] - sums[t - held]) / static_cast<double>(held), static_cast<double>(held), 1};
      const Interval interval = interval_of(sequence);
      different = different || (t >= least_minutes && (interval.low > 0 || interval.high < 0));
    }
    called += different;
  }
  return 100.0 * called / days;
}

/// The figures of tests/bench/results/verdicts.txt. Where old requests leave, each look has a beginning of its own.
TEST(ConfidenceSequence, HoldsFromABeginningThatStays) {
  EXPECT_LT(called_different(1440), 6);
  EXPECT_NEAR(called_different(110), 20, 7);
  EXPECT_NEAR(called_different(30), 55, 8);
}

double variance_of(const std::vector<std::vector<double>>& groups) {
  double squares = 0, degrees = 0;
  for (const auto& group : groups) {
    double mean = 0;
    for (const double value : group) mean += value / static_cast<double>(group.size());
    for (const double value : group) squares += std::pow(value - mean, 2);
    degrees += static_cast<double>(group.size()) - 1;
  }
  return squares / degrees;
}

/// The definition, word by word.
double naive_long_run_variance(const std::vector<Minutes>& series) {
  double greatest = 0;
  for (const std::size_t length : {std::size_t{5}, std::size_t{30}}) {
    std::vector<std::vector<double>> groups;
    for (const Minutes& minutes : series) {
      std::vector<double> means;
      for (std::size_t batch = 0; batch < minutes.size() / length; ++batch) {
        std::vector<double> known;
        for (std::size_t i = 0; i < length; ++i)
          if (!std::isnan(minutes[batch * length + i])) known.push_back(minutes[batch * length + i]);
        if (static_cast<double>(known.size()) < static_cast<double>(length) / 2) continue;
        double mean = 0;
        for (const double value : known) mean += value / static_cast<double>(known.size());
        means.push_back(mean);
      }
      if (!means.empty()) groups.push_back(means);
    }
    greatest = std::max(greatest, static_cast<double>(length) * variance_of(groups));
  }
  return greatest;
}

TEST(LongRunVariance, IsThatOfBatchesOfFiveAndThirtyMinutes) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  for (int round = 0; round < 50; ++round) {
    std::vector<Minutes> series(1 + static_cast<std::size_t>(round) % 3);
    const double missing = 0.2 * (round % 4);
    for (Minutes& minutes : series) {
      const double offset = normal(random);
      double drift = 0;
      minutes.resize(700 + static_cast<std::size_t>(round) * 7);
      for (double& minute : minutes) {
        drift = 0.8 * drift + normal(random);
        minute = random() % 1000 < 1000 * missing ? no_value : offset + drift;
      }
    }
    const auto variance = long_run_variance(series);
    if (!variance) continue;
    EXPECT_NEAR(*variance, naive_long_run_variance(series), 1e-9);
  }
}

TEST(LongRunVariance, TakesEightHours) {
  const auto variance_after = [](std::size_t minutes) {
    return long_run_variance(std::vector<Minutes>{Minutes(minutes, 1.0)});
  };
  EXPECT_FALSE(variance_after(479));
  EXPECT_EQ(variance_after(480), 0);
  EXPECT_FALSE(long_run_variance({}));
  EXPECT_EQ(long_run_variance(std::vector<Minutes>{Minutes(240, 1.0), Minutes(240, 2.0)}), 0)
      << "couples differ in their means";
  EXPECT_FALSE(long_run_variance(std::vector<Minutes>(16, Minutes(30, 1.0)))) << "one batch has no spread";
  Minutes gaps(480, 1.0);
  std::fill_n(gaps.begin(), 15, no_value);
  EXPECT_TRUE(long_run_variance(std::vector<Minutes>{gaps}));
  gaps[15] = no_value;
  EXPECT_FALSE(long_run_variance(std::vector<Minutes>{gaps}));
}

/// The difference of two GPUs whose speeds drift by 2 % each (an Ornstein-Uhlenbeck process with the time constant
/// `tau`), and the noise of 150 pairs a minute, in cells of 10 s.
class Drift {
 public:
  Drift(double tau_s, std::uint64_t seed) : keep_(std::exp(-10 / tau_s)), random_(seed) {
    now_ = speed * normal_(random_);
  }

  double minute() {
    double sum = 0;
    for (int cell = 0; cell < 6; ++cell) {
      sum += now_ + 0.0075 * normal_(random_);
      now_ = keep_ * now_ + speed * std::sqrt(1 - keep_ * keep_) * normal_(random_);
    }
    return sum / 6;
  }
  Minutes minutes(std::size_t count) {
    Minutes minutes(count);
    for (double& one : minutes) one = minute();
    return minutes;
  }

 private:
  static constexpr double speed = 0.02 * 1.4142135623730951;
  double keep_, now_ = 0;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

std::optional<Estimate> own_blocks(std::span<const double> minutes) {
  if (minutes.size() < 10) return std::nullopt;
  return estimate_of(block_means(minutes));
}

/// The first minute of each finding, with a look after every minute; infinite if there is none.
struct Found {
  double worse = std::numeric_limits<double>::infinity(), better = worse, not_worse = worse;
  bool naive = false;  ///< The ten blocks' ordinary interval found a difference at one of the looks.
};

Found look_every_minute(double tau_s, double effect, std::size_t minutes, std::uint64_t seed) {
  Drift drift(tau_s, seed);
  const auto history = long_run_variance(std::vector<Minutes>{drift.minutes(480)});
  Minutes seen;
  Found found;
  while (seen.size() < minutes) {
    seen.push_back(drift.minute() + std::log1p(effect));
    const auto blocks = own_blocks(seen);
    const auto sequence = sequence_of(seen, *history, blocks);
    if (!sequence) continue;
    if (blocks) found.naive |= p_value(Effect{Metric::tpot, blocks}) <= 0.05 / 4;
    Effect one{Metric::tpot, std::nullopt, 0.02, 0.05};
    one.sequence = sequence;
    // The other three of a family are certain to be equal.
    Effect other{Metric::ttft, Estimate{0, 1e-6, 9}};
    const Finding finding = decide(std::vector{one, other, other, other})[0].finding;
    const auto at = static_cast<double>(seen.size());
    if (finding == Finding::worse) found.worse = std::min(found.worse, at);
    if (finding == Finding::better) found.better = std::min(found.better, at);
    if (finding == Finding::not_worse || finding == Finding::equivalent)
      found.not_worse = std::min(found.not_worse, at);
  }
  return found;
}

constexpr std::array<double, 4> drifts{10, 60, 300, 1200};

double middle_of(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

TEST(LooksEveryMinute, FindNoDifferenceBetweenEqualsAtAnyDrift) {
  constexpr std::uint64_t runs = 200;
  for (const double tau : drifts) {
    int different = 0, naive = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      const Found found = look_every_minute(tau, 0, 240, 1000 + run);
      different += std::isfinite(found.worse) || std::isfinite(found.better);
      naive += found.naive;
    }
    std::printf("drift %.0f s: %d of 200 equals differ, %d by ordinary intervals\n", tau, different, naive);
    EXPECT_LE(different, 3) << "drift of " << tau << " s";
    if (tau >= 300) {
      EXPECT_GT(naive, 15) << "who looks at ordinary intervals finds differences";
    }
  }
}

TEST(LooksEveryMinute, FindATwentyFifthPartSoonAndATenthInHalfAnHour) {
  constexpr std::uint64_t runs = 60;
  for (const double tau : drifts) {
    std::vector<double> by_quarter, by_tenth;
    for (std::uint64_t run = 0; run < runs; ++run) {
      by_quarter.push_back(look_every_minute(tau, 0.25, 40, 2000 + run).worse);
      by_tenth.push_back(look_every_minute(tau, 0.10, 120, 3000 + run).worse);
    }
    std::printf("drift %.0f s: +25 %% %g min, +10 %% %g min\n", tau, middle_of(by_quarter), middle_of(by_tenth));
    EXPECT_LE(middle_of(by_quarter), 8) << tau;
    EXPECT_LE(middle_of(by_tenth), 35) << tau;
  }
}

TEST(LooksEveryMinute, LetEqualsPassWithinAnHourAndNothingAtTheMargin) {
  constexpr std::uint64_t runs = 200;
  for (const double tau : {10.0, 60.0, 300.0}) {
    int passed = 0, at_the_margin = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      passed += std::isfinite(look_every_minute(tau, 0, 60, 4000 + run).not_worse);
      at_the_margin += std::isfinite(look_every_minute(tau, 0.05, 240, 5000 + run).not_worse);
    }
    std::printf("drift %.0f s: %d of 200 pass, %d at the margin\n", tau, passed, at_the_margin);
    EXPECT_GE(passed, 180) << "drift of " << tau << " s";
    EXPECT_LE(at_the_margin, 14) << "drift of " << tau << " s";
  }
}

/// Decides about the first of four figures, of which the others are certain to be equal.
Finding found_in(const Effect& one) {
  const Effect other{Metric::ttft, Estimate{0, 1e-6, 9}};
  return decide(std::vector{one, other, other, other})[0].finding;
}

bool says_different(const Effect& one) {
  const Finding finding = found_in(one);
  return finding == Finding::worse || finding == Finding::better;
}

/// The look of a program that holds the last `ring` minutes of those that it has seen.
struct Looker {
  bool keeps_sums;  ///< Its comparison begins with the first minute; else with the first that it holds.
  std::optional<double> history;

  bool says_different(std::span<const double> seen, std::size_t ring) const {
    const auto minutes = keeps_sums || seen.size() <= ring ? seen : seen.last(ring);
    Effect one{Metric::tpot, std::nullopt, 0.02, 0.05};
    if (history) {
      one.sequence = sequence_of(minutes, *history, own_blocks(minutes));
      return one.sequence && statistics::says_different(one);
    }
    one.looks = 5;
    std::size_t look = 0;
    for (const std::size_t at : {10u, 20u, 40u, 80u, 160u}) look = minutes.size() >= at ? at : look;
    if (look == 0) return false;
    one.estimate = own_blocks(minutes.first(look));
    return statistics::says_different(one);
  }
};

/// tests/bench/results/verdicts.txt has the figures of 200 days.
TEST(LooksEveryMinute, OfADayDifferNoMoreOftenThanOfAnHourIfTheBeginningStays) {
  constexpr std::size_t day = 1440, ring = 110;
  constexpr std::uint64_t runs = 60;
  for (const double tau : {300.0, 1200.0}) {
    int sums = 0, sliding = 0, sums_alone = 0, sliding_alone = 0;  // Without a history: alone.
    for (std::uint64_t run = 0; run < runs; ++run) {
      Drift drift(tau, 6000 + run);
      const auto history = long_run_variance(std::vector<Minutes>{drift.minutes(480)});
      const Minutes minutes = drift.minutes(day);
      const auto ever = [&](const Looker& looker) {
        for (std::size_t t = 5; t <= day; ++t)
          if (looker.says_different(std::span(minutes).first(t), ring)) return true;
        return false;
      };
      sums += ever({true, history});
      sliding += ever({false, history});
      sums_alone += ever({true, {}});
      sliding_alone += ever({false, {}});
    }
    std::printf("drift %.0f s: of 60 days of equals differ %d with sums, %d with a ring of 110 min; without a history "
                "%d and %d\n",
                tau, sums, sliding, sums_alone, sliding_alone);
    EXPECT_LE(sums, 3) << "5 % at most";
    EXPECT_GE(sliding_alone, sums_alone);
    if (tau > 1000) {
      EXPECT_GT(sliding_alone, 2 * sums_alone) << "a drift that no block shows is met again and again";
    }
    EXPECT_GE(sliding, sums);
  }
}

}  // namespace
}  // namespace weir::metrics::compare::statistics
