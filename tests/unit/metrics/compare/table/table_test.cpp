// The table of minutes: its sums, what a value counts at most, and that it is the same bit by bit and at once.
#include "metrics/compare/table/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::table {
namespace {

using pairs::Fault;
using statistics::Figure;

constexpr std::int64_t minute = 60 * second;

Table table_of(TwinSamples& samples, const std::optional<config::Slo>& slo = {}) {
  const std::vector<samples::Sample> all = samples.all();
  const pairs::Pairing pairing =
      pair_up(all, samples.config("fp16"), samples.config("fp8"), pairs::WarmUp{.seconds = 0});
  Table table;
  add(table, pairing, {.names = samples.names, .slo = slo, .last_us = samples::last_moment(all)});
  return table;
}

/// Adds a pair with these TTFTs.
samples::Sample& add_pair(TwinSamples& samples, std::int64_t at_us, double a = 0.1, double b = 0.1) {
  samples::Sample& primary = samples.primary(at_us);
  primary.ttft = static_cast<float>(a);
  samples::Sample& shadow = samples.shadow(primary);
  shadow.ttft = static_cast<float>(b);
  return shadow;
}

void fail(samples::Sample& sample) {
  sample.served = false;
  sample.outcome = Outcome::timeout;
}

const Sums& ttft_of(const Row& row) { return row.sums[static_cast<std::size_t>(pairs::Quantity::ttft)]; }
const FaultSums& failed_of(const Row& row) { return row.faults[static_cast<std::size_t>(Fault::failed)]; }

statistics::RatioSums sums_of(const Table& table, Figure figure) {
  statistics::RatioSums all;
  for (const Row& row : table.rows) all += row.of(figure);
  return all;
}

TEST(Table, HasARowForEachMinuteThatHasRequests) {
  TwinSamples samples;
  for (const auto& [at_s, a, b] : {std::tuple(61, 0.1, 0.2), std::tuple(119, 0.3, 0.3), std::tuple(240, 0.5, 0.4)})
    add_pair(samples, at_s * second, a, b);
  const Table table = table_of(samples);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0].minute, 1);
  EXPECT_EQ(table.rows[1].minute, 4);
  const Sums& first = ttft_of(table.rows[0]);
  EXPECT_EQ(first.count_a, 2u);
  EXPECT_EQ(first.count_b, 2u);
  EXPECT_NEAR(first.a, 0.4, 1e-6);
  EXPECT_NEAR(first.b, 0.5, 1e-6);
  EXPECT_NEAR(first.log_a, std::log(0.1 * 0.3), 1e-5);
  EXPECT_NEAR(first.usual, 0.2, 1e-6) << "a's, the smaller one";
  EXPECT_EQ(table.pairs, 3u);
  EXPECT_EQ(table.from_us, 61 * second);
  EXPECT_EQ(table.to_us, 240 * second + 1);
  // ln(b/a) of each minute, and of the second and third none.
  const auto minutes = table.minutes(Figure::ttft);
  ASSERT_EQ(minutes.size(), 4u);
  EXPECT_NEAR(minutes[0], std::log(0.5 / 0.4), 1e-6);
  EXPECT_TRUE(std::isnan(minutes[1]) && std::isnan(minutes[2]));
  EXPECT_NEAR(minutes[3], std::log(0.4 / 0.5), 1e-6);
  EXPECT_NEAR(table.minutes(Figure::ttft_geomean)[0], 0.5 * std::log(0.2 * 0.3 / (0.1 * 0.3)), 1e-5);
}

TEST(Table, ValuesCountUpToTenTimesTheUsualOneAndTheirLogarithmsDownToAFiftieth) {
  TwinSamples samples;
  for (int i = 0; i < 9; ++i) add_pair(samples, i * second);
  add_pair(samples, 9 * second, 0.001, 100);
  const Table table = table_of(samples);
  const Sums& sums = ttft_of(table.rows.at(0));
  EXPECT_NEAR(sums.a, 0.9 + 0.001, 1e-5);
  EXPECT_NEAR(sums.b, 0.9 + 1, 1e-5);
  EXPECT_NEAR(sums.log_a, 9 * std::log(0.1) + std::log(0.002), 1e-4);
  EXPECT_NEAR(sums.log_b, 9 * std::log(0.1) + std::log(1.0), 1e-4);
  EXPECT_NEAR(sums.square_a, 9 * 0.01 + 1e-6, 1e-5);
  EXPECT_NEAR(sums.square_b, 9 * 0.01 + 1, 1e-5);
}

/// Prompts that a cache does not know take a hundred times as long, and are usual all the same.
TEST(Table, WhatATenthOfTheRequestsTakesIsUsual) {
  TwinSamples samples;
  for (int i = 0; i < 50; ++i) add_pair(samples, i * second, i % 10 ? 0.03 : 3, i % 10 ? 0.03 : 3.6);
  const Sums sums = ttft_of(table_of(samples).rows.at(0));
  EXPECT_NEAR(sums.usual, 0.9, 1e-6);
  EXPECT_NEAR(sums.b - sums.a, 5 * 0.6, 1e-4);
}

/// A minute in which both stand still, among nine as usual, does not make that usual.
TEST(Table, TheUsualValueIsTheMedianOfTenMinutes) {
  TwinSamples samples;
  for (int i = 0; i < 9; ++i) add_pair(samples, i * minute, 0.1, i % 2 ? 0.1 : 0.3);
  add_pair(samples, 9 * minute, 5, 5);
  const Table table = table_of(samples);
  EXPECT_NEAR(ttft_of(table.rows.at(9)).a, 1, 1e-5);
  // After five further minutes of it, it is.
  for (int i = 10; i < 15; ++i) add_pair(samples, i * minute, 5, 5);
  EXPECT_NEAR(ttft_of(table_of(samples).rows.at(14)).a, 5, 1e-5);
}

TEST(Table, PairsCountAQuantityThatBothSidesHave) {
  TwinSamples samples;
  add_pair(samples, 0).ttft = samples::unknown;
  add_pair(samples, second).output_tokens = 15;
  const Row row = table_of(samples).rows.at(0);
  EXPECT_EQ(ttft_of(row).count_a, 1u);
  EXPECT_EQ(ttft_of(row).count_b, 1u);
  EXPECT_EQ(row.sums[static_cast<std::size_t>(pairs::Quantity::tpot)].count_a, 1u);
  EXPECT_EQ(row.sums[static_cast<std::size_t>(pairs::Quantity::output_tokens)].count_a, 2u);
  EXPECT_EQ(row.requests_a, 2u);
}

/// Both sides are slow at night. b has nearly all of its requests then, and is as fast as a at any time.
TEST(Table, ASideWithMoreRequestsAtNightDoesNotLookLikeTheNight) {
  TwinSamples samples;
  for (int i = 0; i < 20; ++i) {
    const bool night = i >= 10;
    for (int k = 0; k < (night ? 5 : 40); ++k) samples.primary(i * minute + k * second).ttft = night ? 1 : 0.3f;
    for (int k = 0; k < (night ? 50 : 2); ++k)
      samples.primary(i * minute + k * second, "gpu1", "fp8").ttft = night ? 1 : 0.3f;
  }
  const Table table = table_of(samples);
  ASSERT_EQ(table.mode, pairs::Mode::split);
  for (const Figure figure : {Figure::ttft, Figure::ttft_geomean, Figure::tpot, Figure::output_tokens}) {
    const auto sums = sums_of(table, figure);
    EXPECT_NEAR(*statistics::figure_of(sums, scale_of(figure)), 0, 1e-6) << name_of(figure);
    // 40 * 2 / 42 of each of ten minutes by day, and 5 * 50 / 55 by night.
    EXPECT_NEAR(sums.count_a, 10 * (40 * 2 / 42.0 + 5 * 50 / 55.0), 1e-9);
    EXPECT_NEAR(sums.count_b, sums.count_a, 1e-9);
  }
  // The tenths of conversations weigh as the minutes do.
  statistics::RatioSums folds;
  for (const auto& fold : table.by_conversation) folds += fold[static_cast<std::size_t>(Figure::ttft)];
  const auto rows = sums_of(table, Figure::ttft);
  EXPECT_NEAR(folds.a, rows.a, 1e-5);
  EXPECT_NEAR(folds.b, rows.b, 1e-5);
  EXPECT_NEAR(folds.count_b, rows.count_b, 1e-9);
}

TEST(Table, StallsAreSecondsAThousandRequests) {
  TwinSamples samples;
  for (int i = 0; i < 50; ++i) add_pair(samples, i * second, 0.1, i == 20 ? 3 : 0.1);
  const auto sums = sums_of(table_of(samples), Figure::stalls);
  EXPECT_EQ(sums.mean_a(), 0);
  EXPECT_NEAR(sums.mean_b(), 1000 * (3 - 1) / 50.0, 1e-3) << "what is above ten times the usual wait";
}

TEST(Table, AHalfMinuteOfFaultsIsOneCauseOfTheSideThatHasMore) {
  TwinSamples samples;
  // b fails five times in the first half minute, and a twice; in the second one b fails once; later each fails once.
  for (int i = 0; i < 7; ++i) {
    samples::Sample& b = add_pair(samples, i * second);
    fail(i < 5 ? b : samples.each()[samples.each().size() - 2]);
  }
  fail(add_pair(samples, 31 * second));
  fail(add_pair(samples, 3 * minute));
  add_pair(samples, 3 * minute + second);
  fail(samples.each()[samples.each().size() - 2]);
  // Both fail.
  fail(add_pair(samples, 4 * minute));
  fail(samples.each()[samples.each().size() - 2]);
  const Table table = table_of(samples);
  const FaultSums& first = failed_of(table.rows.at(0));
  EXPECT_EQ(first.pairs, 8u);
  EXPECT_EQ(first.only_b, 6u);
  EXPECT_EQ(first.only_a, 2u);
  EXPECT_EQ(first.halves_b, 2u);
  EXPECT_EQ(first.halves_a, 0u);
  EXPECT_EQ(failed_of(table.rows.at(1)).halves_a + failed_of(table.rows.at(1)).halves_b, 0) << "as many of each";
  EXPECT_EQ(failed_of(table.rows.at(2)).both, 1u);
  const auto causes = table.causes(Fault::failed);
  EXPECT_EQ(causes.b, 2);
  EXPECT_EQ(causes.a, 0);
  EXPECT_EQ(causes.units, 11);
  const FaultTotals all = table.faults(Fault::failed);
  EXPECT_EQ(all.pairs, 11u);
  EXPECT_EQ(all.only_b, 7u);
  EXPECT_EQ(all.only_a, 3u);
  EXPECT_EQ(all.both, 1u);
}

/// Twenty minutes of 60 pairs, in some of which b fails so many times.
Table with_failures(const std::map<int, int>& by_minute) {
  TwinSamples samples;
  for (int i = 0; i < 20 * 60; ++i) {
    samples::Sample& shadow = add_pair(samples, i * second);
    const auto found = by_minute.find(i / 60);
    if (found != by_minute.end() && i % 60 < found->second) fail(shadow);
  }
  return table_of(samples);
}

/// Twenty minutes, in those from `from` to `to` (outside) of which all pairs of b fail.
Table with_outage(int from, int to) {
  std::map<int, int> by_minute;
  for (int i = from; i < to; ++i) by_minute[i] = 60;
  return with_failures(by_minute);
}

TEST(Table, AnOutageIsOneCauseOnceItIsOver) {
  EXPECT_EQ(with_outage(5, 15).causes(Fault::failed).b, 1);
  EXPECT_EQ(with_outage(15, 20).causes(Fault::failed).b, 10) << "it is not over";
  EXPECT_EQ(with_failures({{5, 53}, {6, 60}}).causes(Fault::failed).b, 3) << "not nine of ten failed at first";
  EXPECT_EQ(with_failures({{5, 60}, {9, 60}}).causes(Fault::failed).b, 2);
}

/// A split of 60 requests a minute and side for 20 minutes, each a conversation of its own.
Table split_with(const std::function<bool(int at_s, bool of_b)>& fails, int of_a = 1) {
  TwinSamples samples;
  for (int i = 0; i < 20 * 60; ++i) {
    for (int k = 0; k < of_a; ++k) {
      auto& a = samples.primary(i * second);
      if (fails(i, false)) fail(a);
    }
    auto& b = samples.primary(i * second, "gpu1", "fp8");
    if (fails(i, true)) fail(b);
  }
  return table_of(samples);
}

TEST(Table, WhatSharesACauseInASplitIsOneEventToo) {
  // b is out for five seconds, and for 40.
  const auto outage = split_with([](int at_s, bool of_b) { return of_b && at_s >= 300 && at_s < 305; });
  EXPECT_EQ(outage.causes(Fault::failed).b, 1);
  EXPECT_EQ(outage.faults(Fault::failed).only_b, 5u);
  EXPECT_NEAR(outage.cases(Fault::failed).b, 1, 0.01);
  EXPECT_EQ(split_with([](int at_s, bool of_b) { return of_b && at_s >= 310 && at_s < 350; }).causes(Fault::failed).b,
            1);
  EXPECT_EQ(split_with([](int at_s, bool of_b) { return of_b && at_s >= 350 && at_s < 370; }).causes(Fault::failed).b,
            2);
  // Both sides fail as often, and a has three times the requests.
  const auto both = split_with([](int at_s, bool) { return at_s % 30 < 5; }, 3);
  EXPECT_EQ(both.causes(Fault::failed).a + both.causes(Fault::failed).b, 0);
  EXPECT_NEAR(*both.causes(Fault::failed).share, 0.5, 1e-9);
  EXPECT_NEAR(*both.causes(Fault::failed).share_of_a, 0.75, 1e-3);
  EXPECT_NEAR(*both.cases(Fault::failed).share, 0.25, 1e-3);
  EXPECT_EQ(both.faults(Fault::failed).of_a, 3600u);
}

TEST(Table, CasesThatComeInClustersAreFewer) {
  const auto alone = with_failures({{1, 1}, {5, 1}, {9, 1}, {14, 1}}).cases(Fault::failed);
  EXPECT_EQ(alone.b, 4);
  EXPECT_EQ(alone.units, 1200);
  // Twelve at once: the minutes vary by (144 - 144 / 20) / 12 * 20 / 19 = 12 times what single pairs would.
  const auto clustered = with_failures({{9, 12}}).cases(Fault::failed);
  EXPECT_NEAR(clustered.b, 1, 1e-9);
  EXPECT_NEAR(clustered.units, 100, 1e-9);
  // Two neighbouring minutes of six: (72 - 7.2) / 12 * 20 / 19.
  const auto longer = with_failures({{8, 6}, {9, 6}}).cases(Fault::failed);
  EXPECT_NEAR(longer.b, 12 / (64.8 / 12 * 20 / 19), 1e-9);
  EXPECT_EQ(with_failures({}).cases(Fault::failed).units, 1200);
}

TEST(Table, AConversationOfASplitCountsOnceForItsSide) {
  TwinSamples samples;
  const auto request = [&](std::uint64_t group, bool of_b, bool fails) {
    samples::Sample& one = of_b ? samples.primary(second, "gpu1", "fp8") : samples.primary(second);
    one.group = group;
    if (fails) fail(one);
  };
  for (int turn = 0; turn < 20; ++turn) request(7, true, true);
  for (int turn = 0; turn < 10; ++turn) request(8, true, false);
  for (int turn = 0; turn < 5; ++turn) request(9, false, turn == 3);
  request(0, false, false);  // Two requests without a conversation are two.
  request(0, false, false);
  request(7, false, false);  // A conversation that moved is one of each side.
  const Table table = table_of(samples);
  EXPECT_EQ(table.conversations_a, 4u);
  EXPECT_EQ(table.conversations_b, 2u);
  const auto failed = table.faults(Fault::failed);
  EXPECT_EQ(failed.only_a, 1u);
  EXPECT_EQ(failed.only_b, 1u);
  EXPECT_EQ(failed.of_a, 4u);
  EXPECT_EQ(failed.of_b, 2u);
  EXPECT_NEAR(*table.cases(Fault::failed).share, 2 / 6.0, 1e-12);
  EXPECT_EQ(table.causes(Fault::failed).b, 1) << "of fewer conversations";
  EXPECT_EQ(table.causes(Fault::failed).a, 0);
  EXPECT_EQ(table.faults(Fault::failed).pairs, 6u);
}

TEST(Table, OfALogKeepsAllMinutes) {
  TwinSamples samples;
  const int all = static_cast<int>(Table::most_rows) + 100;
  for (int i = 0; i < all; ++i) add_pair(samples, i * minute);
  const Table table = table_of(samples);
  EXPECT_EQ(table.rows.size(), static_cast<std::size_t>(all));
  EXPECT_EQ(table.pairs, static_cast<std::uint64_t>(all));
  EXPECT_EQ(table.from_us, 0);
}

TEST(Table, MomentsThatCannotBeTakeNoMemory) {
  TwinSamples samples;
  add_pair(samples, -5 * minute);
  add_pair(samples, 0);
  add_pair(samples, 61 * std::int64_t{1440} * minute);
  const Table table = table_of(samples);
  EXPECT_EQ(table.rows.size(), 2u) << "what was before 1970 is no row";
  EXPECT_TRUE(table.minutes(Figure::ttft).empty());
}

TEST(Table, CountsTheObjectiveItIsOfAlone) {
  TwinSamples samples;
  add_pair(samples, 0, 0.1, 0.5);
  const auto slo = [](double ttft) { return config::Slo{"s", "chat", {}, config::Seconds(ttft), {}, {}}; };
  const Table table = table_of(samples, slo(0.3));
  EXPECT_EQ(table.faults(Fault::slo).only_b, 1u);
  EXPECT_TRUE(table.counts(slo(0.3)));
  EXPECT_FALSE(table.counts(slo(0.2)));
  EXPECT_FALSE(table.counts(std::nullopt));
  EXPECT_TRUE(table_of(samples).counts(std::nullopt));
}

}  // namespace
}  // namespace weir::metrics::compare::table
