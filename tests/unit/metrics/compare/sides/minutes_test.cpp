#include "metrics/compare/sides/minutes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/metrics/compare/described_samples.hpp"

namespace weir::metrics::compare::sides {
namespace {

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
