#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "metrics/compare/sides/side.hpp"
#include "tests/unit/metrics/compare/described_samples.hpp"

namespace weir::metrics::compare::sides {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

/// Ten minutes of requests on gpu0 and gpu1.
class DescribedSide : public ::testing::Test {
 protected:
  DescribedSide() { options.window = {noon, noon + 600 * second_us}; }

  Side described() const { return describe("fp16", Role::primary, pointers(samples), names, options); }

  samples::Names names;
  samples::Names::Name gpu0 = names.of("gpu0"), gpu1 = names.of("gpu1"), config = names.of("fp16");
  std::vector<samples::Sample> samples;
  SideOptions options;
};

TEST_F(DescribedSide, CountsRequestsAndTheirOutcomes) {
  for (int i = 0; i < 8; ++i) samples.push_back(stream_at(i * 10, gpu0));
  samples[1].outcome = Outcome::timeout;
  samples[2].outcome = Outcome::client_abort;
  samples[3].outcome = Outcome::client_error;
  for (const int i : {1, 2, 3}) samples[static_cast<std::size_t>(i)].served = false;
  const auto side = described();
  EXPECT_EQ(side.requests, 8U);
  EXPECT_EQ(side.outcomes[static_cast<std::size_t>(Outcome::ok)], 5U);
  EXPECT_DOUBLE_EQ(*side.rpm, 0.8);
  // Aborts and errors of clients are no errors of the side.
  EXPECT_DOUBLE_EQ(*side.error_share, 1.0 / 8);
  EXPECT_THAT(side.replicas, ElementsAre("gpu0"));
  EXPECT_FALSE(side.slo_attainment || side.capacity);
}

TEST_F(DescribedSide, WhatAShadowWasSparedIsNoRequest) {
  samples.assign(3, stream_at(0, gpu0));
  samples[1].drop_reason = names.of("late_loop");
  const auto side = described();
  EXPECT_EQ(side.requests, 2U);
  EXPECT_THAT(side.dropped, ElementsAre(Pair("late_loop", 1)));
  EXPECT_EQ(side.ttft.count, 2U);
}

TEST_F(DescribedSide, TimesOfAnEndCountForServedRequestsAlone) {
  samples.assign(2, stream_at(0, gpu0));
  record::GapSketch sketch;
  sketch.add(std::chrono::milliseconds(10), 100);
  for (auto& sample : samples) {
    sample.gaps.assign(sketch.bins().begin(), sketch.bins().end());
    sample.gaps_are_itl = true;
  }
  samples[0].served = false;
  samples[0].ttft = 5;
  const auto side = described();
  EXPECT_EQ(side.ttft.count, 2U);
  EXPECT_EQ(side.ttft_client.count, 2U);
  EXPECT_EQ(side.tpot.count, 1U);
  EXPECT_EQ(side.e2e.count, 1U);
  EXPECT_EQ(side.decode_speed.count, 1U);
  EXPECT_NEAR(*side.decode_speed.p50, 100, 1e-3);
  EXPECT_EQ(side.itl.count, 100U);
  EXPECT_NEAR(*side.itl.p50, 0.01, 1e-4);
  EXPECT_FALSE(side.tpot.p99);
  // The tokens of a failed request count: the GPU made them.
  EXPECT_EQ(side.output_tokens_sum, 202U);
}

TEST_F(DescribedSide, ChunkGapsAreNoItl) {
  samples.assign(1, stream_at(0, gpu0));
  samples[0].gaps = {{412, 7}};
  EXPECT_EQ(described().itl.count, 0U);
}

TEST_F(DescribedSide, TokenRatesAreThoseOfABusyReplica) {
  // Each replica is busy for 4 s of 600 and makes 202 tokens.
  for (const auto gpu : {gpu0, gpu1}) {
    samples.push_back(stream_at(0, gpu));
    samples.push_back(stream_at(100, gpu));
  }
  const auto side = described();
  EXPECT_NEAR(side.busy_s, 8, 1e-6);
  EXPECT_NEAR(*side.output_tokens_per_second, 404 / 8.0, 1e-6);
  EXPECT_NEAR(*side.total_tokens_per_second, (404 + 4000) / 8.0, 1e-6);
  EXPECT_NEAR(*side.in_flight_mean, 1, 1e-6);
}

TEST_F(DescribedSide, NothingMissingIsAZero) {
  const auto none = described();
  EXPECT_EQ(none.requests, 0U);
  EXPECT_FALSE(none.error_share || none.slo_attainment || none.cached_share || none.output_tokens_per_second ||
               none.in_flight_mean || none.prefill || none.cost);
  samples.assign(1, stream_at(0, gpu0));
  samples[0].output_tokens = samples[0].cached_tokens = samples::unknown_count;
  const auto side = described();
  EXPECT_FALSE(side.output_tokens_per_second || side.cached_share);
  EXPECT_EQ(side.output_tokens.count, 0U);
}

TEST_F(DescribedSide, ReasoningTokensAreThoseOfRequestsWhoseEngineCountsThem) {
  samples.assign(3, stream_at(0, gpu0));
  EXPECT_EQ(described().reasoning_tokens.count, 0U);
  samples[0].reasoning_tokens = 0;
  samples[1].reasoning_tokens = 40;
  EXPECT_EQ(described().reasoning_tokens.count, 2U) << "0 is a count, and unknown is none";
}

TEST_F(DescribedSide, TheCachedShareIsOfPromptsOfWhichItIsKnown) {
  samples.assign(3, stream_at(0, gpu0));
  samples[0].cached_tokens = 500;
  samples[1].cached_tokens = 0;
  samples[2].cached_tokens = samples::unknown_count;
  EXPECT_DOUBLE_EQ(*described().cached_share, 0.25);
}

TEST_F(DescribedSide, ThePrefillLineIsThatOfAnIdleReplica) {
  // 50 ms, and 0.2 ms a token that is not cached.
  for (const std::uint32_t tokens : {100U, 1000U, 5000U, 9000U}) {
    auto one = stream_at(0, gpu0);
    one.prompt_tokens = tokens + 300;
    one.cached_tokens = 300;
    one.ttft = 0.05F + 0.0002F * static_cast<float>(tokens);
    samples.push_back(one);
  }
  auto crowded = stream_at(0, gpu0), unknown_cache = crowded, failed = crowded;
  crowded.in_flight_at_start = 1;
  unknown_cache.cached_tokens = samples::unknown_count;
  failed.served = false;
  for (auto* other : {&crowded, &unknown_cache, &failed}) {
    other->ttft = 30;
    samples.push_back(*other);
  }
  const auto side = described();
  ASSERT_TRUE(side.prefill);
  EXPECT_EQ(side.prefill->requests, 4U);
  EXPECT_NEAR(side.prefill->ms_per_thousand_tokens.value, 200, 0.01);
  EXPECT_NEAR(side.prefill->ms_per_thousand_tokens.interval->low, 200, 0.1);
  EXPECT_NEAR(side.prefill->intercept_ms.value, 50, 0.01);
}

TEST_F(DescribedSide, AttainmentCountsWhatWasJudged) {
  options.objective.slo.emplace();
  options.objective.slo->ttft = config::Seconds(1.5);
  samples.assign(4, stream_at(0, gpu0));
  samples[0].ttft = 2;
  samples[3].served = false;
  samples[3].outcome = Outcome::client_error;
  const auto side = described();
  EXPECT_EQ(side.slo_good, 2U);
  EXPECT_EQ(side.slo_bad, 1U);
  EXPECT_DOUBLE_EQ(*side.slo_attainment, 2.0 / 3);
}

TEST_F(DescribedSide, CostsAreThoseOfAllItsReplicasOverTheWindow) {
  samples = {stream_at(0, gpu0), stream_at(0, gpu1)};
  samples[1].served = false;
  samples[1].outcome = Outcome::timeout;
  options.cost_per_hour = [](std::string_view replica, std::string_view) {
    return std::optional(replica == "gpu0" ? 1.2 : 2.4);
  };
  const auto side = described();
  EXPECT_DOUBLE_EQ(*side.cost_per_hour, 3.6);
  // Ten minutes cost 0.6. One request was served, and 202 tokens were made.
  EXPECT_NEAR(side.cost->per_thousand_requests, 600, 1e-9);
  EXPECT_NEAR(side.cost->per_million_output_tokens, 0.6 / 202 * 1e6, 1e-6);
  options.cost_per_hour = [](std::string_view replica, std::string_view) {
    return replica == "gpu0" ? std::optional(1.2) : std::nullopt;
  };
  EXPECT_FALSE(described().cost);
}

TEST_F(DescribedSide, TheCostAtCapacityIsThatOfOneReplicaThere) {
  options.objective.slo.emplace();
  options.objective.slo->ttft = config::Seconds(1.5);
  options.cost_per_hour = [](std::string_view, std::string_view) { return std::optional(3.6); };
  // Both are busy all the time with one request, and make 101 tokens every 2 s, 30 requests a minute.
  for (const auto gpu : {gpu0, gpu1}) {
    for (int i = 0; i < 300; ++i) samples.push_back(stream_at(2 * i, gpu));
  }
  const auto side = described();
  ASSERT_EQ(side.capacity->state, Capacity::State::not_reached);
  EXPECT_NEAR(side.capacity->at->output_tokens_per_second.value, 50.5, 1e-6);
  EXPECT_NEAR(side.cost_at_capacity->per_million_output_tokens, 0.001 / 50.5 * 1e6, 1e-6);
  EXPECT_NEAR(side.cost_at_capacity->per_thousand_requests, 0.06 / 30 * 1e3, 1e-6);
}

ReplicaMinute minute_with(double in_flight, double output_tokens_per_second, std::uint32_t good = 0,
                          std::uint32_t bad = 0) {
  ReplicaMinute minute;
  minute.in_flight = in_flight;
  minute.output_tokens = output_tokens_per_second * 60;
  minute.prompt_tokens = 600;
  minute.requests = good + bad;
  minute.good = good;
  minute.bad = bad;
  minute.ttft = 0.1 * in_flight;
  minute.tpot = 0.02;
  return minute;
}

TEST(LoadPoints, AreByTheNumberInFlight) {
  const std::vector<ReplicaMinute> minutes{minute_with(2.2, 100), minute_with(1.8, 80), minute_with(1, 50),
                                           minute_with(0.4, 10)};
  const auto points = load_points(minutes);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_DOUBLE_EQ(points[0].in_flight, 1);
  EXPECT_EQ(points[0].minutes, 1U);
  EXPECT_FALSE(points[0].output_tokens_per_second.interval);
  EXPECT_DOUBLE_EQ(points[1].in_flight, 2);
  EXPECT_DOUBLE_EQ(points[1].output_tokens_per_second.value, 90);
  EXPECT_DOUBLE_EQ(points[1].total_tokens_per_second.value, 100);
  EXPECT_TRUE(points[1].output_tokens_per_second.interval);
  EXPECT_NEAR(points[1].ttft->value, 0.2, 1e-12);
  EXPECT_DOUBLE_EQ(points[1].tokens_per_second_per_user->value, 50);
}

TEST(LoadPoints, HighLoadsShareAPoint) {
  const struct {
    double one, other;
    std::size_t points;
  } cases[]{{7, 8, 2}, {8, 9, 1}, {9, 10, 2}, {16, 19, 1}, {19, 20, 2}, {64, 79, 1}, {79, 80, 2}};
  for (const auto& [one, other, expected] : cases) {
    const std::vector<ReplicaMinute> minutes{minute_with(one, 1), minute_with(other, 1)};
    EXPECT_EQ(load_points(minutes).size(), expected) << one << ' ' << other;
  }
}

TEST(Capacity, IsTheHighestRateBelowTheFirstLoadThatMisses) {
  const std::vector<ReplicaMinute> minutes{minute_with(1, 50, 100, 0), minute_with(4, 160, 1000, 10),
                                           minute_with(8, 200, 990, 11), minute_with(6, 180, 99, 0),
                                           minute_with(20, 300, 1000, 0)};
  const auto capacity = capacity_of(load_points(minutes));
  // At 6 in flight there are too few judged requests; at 8 attainment is 98.9 %, and what holds beyond does not count.
  EXPECT_EQ(capacity.state, Capacity::State::found);
  EXPECT_DOUBLE_EQ(capacity.at->in_flight, 4);
  EXPECT_DOUBLE_EQ(capacity.at->output_tokens_per_second.value, 160);
}

TEST(Capacity, SaysWhatIsNotKnown) {
  const std::vector<ReplicaMinute> fine{minute_with(1, 50, 100, 0), minute_with(2, 40, 100, 0)};
  EXPECT_EQ(capacity_of(load_points(fine)).state, Capacity::State::not_reached);
  EXPECT_DOUBLE_EQ(capacity_of(load_points(fine)).at->output_tokens_per_second.value, 50);
  const std::vector<ReplicaMinute> poor{minute_with(1, 50, 90, 10)};
  EXPECT_EQ(capacity_of(load_points(poor)).state, Capacity::State::none);
  EXPECT_FALSE(capacity_of(load_points(poor)).at);
  const std::vector<ReplicaMinute> few{minute_with(1, 50, 99, 0)};
  EXPECT_EQ(capacity_of(load_points(few)).state, Capacity::State::too_few);
  EXPECT_EQ(capacity_of({}).state, Capacity::State::too_few);
}

const statistics::Window three_minutes{noon, noon + 180 * second_us};
const samples::Objective none;

TEST(Minutes, SpreadARequestOverItsTime) {
  // The request is sent 58 s after noon, has its first token at 61 s and ends at 63 s.
  auto one = stream_at(58);
  one.ttft = 3;
  one.e2e = one.lasted = 5;
  const auto minutes = minutes_of(std::vector<const samples::Sample*>{&one}, three_minutes, none);
  ASSERT_EQ(minutes.size(), 2U);
  EXPECT_EQ(minutes[0].from_us, noon);
  EXPECT_NEAR(minutes[0].in_flight, 2.0 / 60, 1e-9);
  EXPECT_NEAR(minutes[1].in_flight, 3.0 / 60, 1e-9);
  EXPECT_NEAR(minutes[0].prompt_tokens, 1000 * 2.0 / 3, 1e-6);
  EXPECT_NEAR(minutes[1].prompt_tokens, 1000 / 3.0, 1e-6);
  EXPECT_EQ(minutes[0].output_tokens, 0);
  EXPECT_NEAR(minutes[1].output_tokens, 101, 1e-6);
  EXPECT_EQ(minutes[0].requests, 1U);
  EXPECT_EQ(minutes[1].requests, 0U);
  EXPECT_FLOAT_EQ(static_cast<float>(*minutes[0].ttft), 3);
  EXPECT_FALSE(minutes[1].ttft);
}

TEST(Minutes, NothingIsLostOrMadeUp) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> when(60, 1000), length(0.001, 100);
  std::vector<samples::Sample> samples;
  double busy = 0;
  for (int i = 0; i < 500; ++i) {
    auto one = stream_at(when(random), static_cast<samples::Names::Name>(1 + i % 3));
    one.lasted = static_cast<float>(length(random));
    one.ttft = one.lasted / 3;
    busy += static_cast<double>(one.lasted);
    samples.push_back(one);
  }
  const auto minutes = minutes_of(pointers(samples), {noon, noon + 3600 * second_us}, none);
  double in_flight = 0, output = 0, prompt = 0, requests = 0;
  for (const auto& minute : minutes) {
    in_flight += minute.in_flight * 60;
    output += minute.output_tokens;
    prompt += minute.prompt_tokens;
    requests += minute.requests;
  }
  EXPECT_NEAR(in_flight, busy, 0.01);
  EXPECT_NEAR(output, 500 * 101, 0.01);
  EXPECT_NEAR(prompt, 500 * 1000, 0.01);
  EXPECT_EQ(requests, 500);
}

TEST(Minutes, ThoseAtTheEdgesOfTheWindowAreLeftOut) {
  const std::vector<samples::Sample> samples{stream_at(5), stream_at(65), stream_at(125)};
  const auto minutes = minutes_of(pointers(samples), {noon + second_us, noon + 179 * second_us}, none);
  ASSERT_EQ(minutes.size(), 1U);
  EXPECT_EQ(minutes[0].from_us, noon + 60 * second_us);
}

TEST(Minutes, ReplicasAreApart) {
  const std::vector<samples::Sample> samples{stream_at(5, 2), stream_at(6, 1)};
  const auto minutes = minutes_of(pointers(samples), three_minutes, none);
  ASSERT_EQ(minutes.size(), 2U);
  EXPECT_EQ(minutes[0].replica, 1U);
  EXPECT_EQ(minutes[1].replica, 2U);
}

TEST(Minutes, RequestsAreJudgedWhereTheyWereSent) {
  samples::Objective objective;
  objective.slo.emplace();
  objective.slo->ttft = config::Seconds(1.5);
  auto slow = stream_at(6), refused = stream_at(7);
  slow.ttft = 1.6F;
  refused.served = false;
  refused.outcome = Outcome::replica_refused;
  refused.lasted = refused.e2e = 0;
  const auto minutes = minutes_of(pointers({stream_at(5), slow, refused}), three_minutes, objective);
  ASSERT_EQ(minutes.size(), 1U);
  EXPECT_EQ(minutes[0].good, 1U);
  EXPECT_EQ(minutes[0].bad, 2U);
}

TEST(Minutes, ARequestWithoutReplicaOrEndIsNoLoad) {
  auto rejected = stream_at(5, 0), endless = stream_at(6);
  endless.lasted = endless.e2e = samples::unknown;
  const auto minutes = minutes_of(pointers({rejected, endless}), three_minutes, none);
  ASSERT_EQ(minutes.size(), 1U);
  EXPECT_EQ(minutes[0].in_flight, 0);
  EXPECT_EQ(minutes[0].requests, 1U);
}

TEST(Minutes, AnAbsurdDurationCostsADayAtMost) {
  auto one = stream_at(0);
  one.lasted = 9e8F;
  const auto minutes =
      minutes_of(std::vector<const samples::Sample*>{&one}, {noon, noon + 2 * 86'400 * second_us}, none);
  EXPECT_EQ(minutes.size(), 1440U);
}

TEST(BusySeconds, OverlapsCountOnceAndReplicasAddUp) {
  // Each lasts two seconds.
  const std::vector<samples::Sample> samples{stream_at(0), stream_at(1), stream_at(10), stream_at(10, 2)};
  EXPECT_NEAR(busy_seconds(pointers(samples)), 3 + 2 + 2, 1e-6);
  EXPECT_EQ(busy_seconds({}), 0);
  auto inside = stream_at(0.5);
  inside.lasted = 0.1F;
  EXPECT_NEAR(busy_seconds(pointers({inside, stream_at(0)})), 2, 1e-6);
}

}  // namespace
}  // namespace weir::metrics::compare::sides
