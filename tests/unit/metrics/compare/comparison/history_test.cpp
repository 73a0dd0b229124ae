// What a history of one configuration is, and what it changes.
#include "metrics/compare/comparison/history.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Figure;
using statistics::Finding;

constexpr std::int64_t minute = 60 * second;

/// Nine hours of a primary and its control, and a candidate in the last `minutes`, `factor` as slow.
struct Nights {
  TwinSamples samples;

  explicit Nights(int minutes, double factor, int hours = 9, double noise = 0.01) {
    const int all = 60 * hours;
    for (int i = 0; i < all * 3; ++i) {
      samples::Sample primary = samples.primary(20 * i * second);
      samples.shadow(primary, "same0", "fp16", "same").tpot = drifting(i / 3, 1, noise);
      if (i / 3 >= all - minutes) samples.shadow(primary).tpot = drifting(i / 3, 2, noise) * static_cast<float>(factor);
    }
  }
  static float drifting(int at, std::uint64_t salt, double noise) {
    return static_cast<float>(0.02 * std::exp(noise * (2 * uniform(static_cast<std::uint64_t>(at), salt) - 1)));
  }
  /// The candidate against the primary, since the control began long before the candidate.
  Comparison of() {
    Options options = open_options_of(samples);
    options.a = {sides::By::replica, samples.names.of("gpu0")};
    options.b = {sides::By::shadow, samples.names.of("fp8")};
    return compare(samples, options);
  }
};

TEST(History, OfAControlLetsASmallDifferenceBeAVerdictWithinMinutes) {
  Nights slower(15, 1.05), equal(15, 1);
  const Comparison comparison = slower.of();
  ASSERT_TRUE(comparison.history);
  EXPECT_NEAR(comparison.history->hours, 9, 0.1);
  EXPECT_EQ(comparison.history->source, "same against its primary");
  EXPECT_EQ(comparison.state, State::running);
  EXPECT_EQ(verdict_of(comparison, Figure::tpot).finding, Finding::worse);
  EXPECT_EQ(verdict_of(comparison, Figure::tpot).effect.least_claim, 0);
  EXPECT_NE(verdict_of(equal.of(), Figure::tpot).finding, Finding::worse);
  Nights without(15, 1.05, 7);
  const Comparison alone = without.of();
  EXPECT_FALSE(alone.history) << "seven hours are none";
  EXPECT_EQ(verdict_of(alone, Figure::tpot).finding, Finding::inconclusive);
  EXPECT_NEAR(verdict_of(alone, Figure::tpot).effect.least_claim, std::log1p(drift_allowance * 24 / 15), 1e-12);
}

TEST(History, ThatVariesMoreTakesLonger) {
  const auto width = [](double noise) {
    Nights nights(8, 1, 9, noise);
    const Verdict tpot = verdict_of(nights.of(), Figure::tpot);
    return tpot.interval->high - tpot.interval->low;
  };
  EXPECT_GT(width(0.05), 2 * width(0.01));
}

TEST(History, OfReplicasOfOneConfigurationServesWhereThereIsNoControl) {
  TwinSamples samples;
  for (int i = 0; i < 9 * 60 * 6; ++i) {
    samples::Sample& primary = samples.primary(10 * i * second, i % 2 ? "gpu1" : "gpu0");
    primary.tpot = Nights::drifting(i / 6, static_cast<std::uint64_t>(i % 2), 0.01);
    if (i % 2 == 0 && i / 6 >= 9 * 60 - 20) samples.shadow(primary).tpot = primary.tpot * 1.25f;
  }
  const Comparison comparison = compare(samples, open_options_of(samples));
  ASSERT_TRUE(comparison.history);
  EXPECT_EQ(comparison.history->source, "gpu1 against gpu0");
  EXPECT_EQ(verdict_of(comparison, Figure::tpot).finding, Finding::worse);
}

/// Two pools, of which one is quiet: its replicas say nothing of the noise in the other.
TEST(History, OfAnotherPoolDoesNotCount) {
  TwinSamples samples;
  const auto quiet = samples.names.of("batch");  // Before "chat" in every order.
  for (int i = 0; i < 9 * 60 * 6; ++i) {
    samples::Sample& primary = samples.primary(10 * i * second, i % 2 ? "gpu1" : "gpu0");
    primary.tpot = Nights::drifting(i / 180, static_cast<std::uint64_t>(i % 2), 0.1);
    if (i % 2 == 0 && i / 6 >= 9 * 60 - 20) samples.shadow(primary).tpot = primary.tpot;
    for (const char* const replica : {"calm0", "calm1", "calm2", "calm3"})
      samples.primary(10 * i * second, replica).pool = quiet;
  }
  const std::vector<History> histories =
      histories_of(couples_of(samples.all(), samples.names, pairs::WarmUp{.seconds = 0}));
  ASSERT_EQ(histories.size(), 2u);
  for (const History& one : histories) {
    if (one.pool == "batch") {
      EXPECT_EQ(one.source, "calm1 against calm0, calm3 against calm2");
      EXPECT_NEAR(*one.variance(Figure::tpot), 0, 1e-12);
    } else {
      EXPECT_EQ(one.pool, "chat");
      EXPECT_EQ(one.source, "gpu1 against gpu0");
      EXPECT_GT(one.variance(Figure::tpot), 0.01);
    }
  }
  const Comparison comparison = compare(samples, open_options_of(samples));
  ASSERT_TRUE(comparison.history);
  EXPECT_EQ(comparison.history->source, "gpu1 against gpu0");
}

TEST(History, ThatIsGivenCountsBeforeThatOfTheSamples) {
  Nights nights(8, 1.02);
  Options options = open_options_of(nights.samples);
  options.a = {sides::By::replica, nights.samples.names.of("gpu0")};
  options.b = {sides::By::shadow, nights.samples.names.of("fp8")};
  History given;
  given.source = "--floor floor.jsonl";
  for (auto& series : given.minutes) {
    series = {statistics::Minutes()};
    for (int i = 0; i < 600; ++i) series.front().push_back(i / 30 % 2 ? 1.0 : -1.0);
  }
  options.histories = {given};
  const Comparison comparison = compare(nights.samples, options);
  EXPECT_EQ(comparison.history->source, "--floor floor.jsonl");
  EXPECT_EQ(comparison.history->hours, 10);
  EXPECT_GT(verdict_of(comparison, Figure::tpot).interval->high, 1);
}

TEST(History, OfAShadowsColdBeginningDoesNotCount) {
  Nights nights(8, 1);
  for (samples::Sample& sample : nights.samples.each()) {
    if (sample.shadow == nights.samples.names.of("same") && sample.received_us < 10 * minute) sample.tpot *= 100;
  }
  Options options = open_options_of(nights.samples);
  options.a = {sides::By::replica, nights.samples.names.of("gpu0")};
  options.b = {sides::By::shadow, nights.samples.names.of("fp8")};
  const auto width = [&] {
    const Verdict tpot = verdict_of(compare(nights.samples, options), Figure::tpot);
    return tpot.interval ? tpot.interval->high - tpot.interval->low : 0;
  };
  const double cold = width();
  EXPECT_GT(cold, 0.5);
  const pairs::WarmUp warm{.seconds = 600};
  const auto histories = histories_of(couples_of(nights.samples.all(), nights.samples.names, warm));
  ASSERT_EQ(histories.size(), 1u);
  EXPECT_LT(*histories[0].variance(Figure::tpot), 0.001);
}

TEST(History, OfPairsServesNoSplit) {
  TwinSamples samples;
  for (int i = 0; i < 400; ++i) samples.primary(5 * i * second, i % 2 ? "gpu1" : "gpu0", i % 2 ? "fp8" : "fp16");
  Options options = open_options_of(samples);
  History given;
  for (auto& series : given.minutes) series = {statistics::Minutes(600, 0.0)};
  options.histories = {given};
  EXPECT_TRUE(compare(samples, options).history);
  options.histories[0].paired = true;
  EXPECT_FALSE(compare(samples, options).history);
}

TEST(WithAControl, TheWindowBeginsAtOnceIfBothBeganTogether) {
  for (const int later_s : {0, 50, 70, 700}) {
    TwinSamples samples;
    for (int i = 0; i < 400; ++i) {
      samples::Sample primary = samples.primary(5 * i * second);
      samples.shadow(primary, "same0", "fp16", "same");
      if (5 * i >= later_s) samples.shadow(primary);
    }
    Options options = open_options_of(samples);
    options.warm_up = {.seconds = 600, .kv_tokens = [](auto, auto) { return 1000; }};
    const Comparison comparison = compare(samples, options);
    EXPECT_EQ(comparison.mode, pairs::Mode::control);
    EXPECT_EQ(comparison.window.from_us, (later_s <= 60 ? later_s : later_s + 600) * second) << later_s;
    EXPECT_EQ(comparison.warming > 0, later_s > 60);
  }
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
