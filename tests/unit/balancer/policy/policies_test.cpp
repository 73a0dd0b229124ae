#include <map>

#include "balancer/policy/policies.hpp"
#include "tests/unit/balancer/requests.hpp"

namespace weir::balancer::policy {
namespace {

using Replicas = std::vector<ReplicaView>;

Replicas idle(std::size_t n) {
  Replicas replicas(n);
  for (std::size_t i = 0; i < n; ++i) replicas[i].index = static_cast<ReplicaIndex>(i);
  return replicas;
}

std::vector<int> counts(config::Policy policy, const Replicas& replicas, int turns, std::uint64_t seed = 1) {
  Random random(seed);
  const auto chooser = make(policy);
  std::vector<int> chosen(replicas.size());
  for (int i = 0; i < turns; ++i) ++chosen[chooser->choose({.prompt = 100}, replicas, random)];
  return chosen;
}

constexpr TimeModel times{.step = 0.02, .sequence = 0.001, .context = 1e-7, .token = 1e-4, .first_steps = 1.5};

ReplicaView view() {
  ReplicaView made;
  made.time = times;
  return made;
}

/// Each row differs from an idle replica in one thing, and adds so many seconds to the first token.
TEST(Forecast, AddsTheTimesUntilTheFirstTokenByHand) {
  const Job job{.prompt = 1000, .output = 100};
  const double idle = 1.5 * 0.02 + 1000 * 1e-4;
  const auto first = [&](auto change) {
    ReplicaView one = view();
    change(one);
    return forecast(job, one).first_token;
  };
  EXPECT_NEAR(first([](ReplicaView&) {}), idle, 1e-9);
  EXPECT_NEAR(first([](ReplicaView& r) { r.cached = 400; }), idle - 400 * 1e-4, 1e-9);
  EXPECT_NEAR(first([](ReplicaView& r) { r.prefill_left = 500, r.pending = 1, r.in_flight = 1; }), idle + 0.05, 1e-9);
  // A fifth of a prompt of 500 is done after 10 ms.
  const auto begun = [](ReplicaView& r) { r.prefill_left = 500, r.pending = 1, r.worked_seconds = 0.01; };
  EXPECT_NEAR(first(begun), idle + 0.04, 1e-9);
  // A first token that is 1 s overdue may take 1 s more; a delay of three steps is usual.
  const auto late = [](ReplicaView& r) { r.prefill_left = 500, r.pending = 1, r.worked_seconds = 1.11; };
  EXPECT_NEAR(first(late), idle + 1, 1e-9);
  const auto silent = [](ReplicaView& r) { r.streaming = r.in_flight = 2, r.silent_seconds = 1.066; };
  EXPECT_NEAR(first(silent), idle + 1.5 * 2 * 0.001 + 1, 1e-9);
  const auto held_back = [](ReplicaView& r) { r.streaming = r.in_flight = 1, r.silent_seconds = 20; };
  EXPECT_NEAR(first(held_back), idle + 1.5 * 0.001, 1e-9) << "the tokens of one stream may be";
  // Ten decode with 5000 tokens in context.
  const auto busy = [](ReplicaView& r) { r.streaming = r.in_flight = 10, r.context = 5000; };
  EXPECT_NEAR(first(busy), idle + 1.5 * (10 * 0.001 + 5000 * 1e-7), 1e-9);
  EXPECT_NEAR(first([](ReplicaView& r) { r.load_seconds = 3; }), idle + 3, 1e-9);
  // Of two loads of 3 s each, 2 s are over.
  const auto loads = [](ReplicaView& r) { r.pending = 1, r.worked_seconds = 2, r.loading_seconds = 6; };
  EXPECT_NEAR(first(loads), idle + 4, 1e-9);
  const auto overdue = [](ReplicaView& r) { r.pending = 1, r.worked_seconds = 7.06, r.loading_seconds = 6; };
  EXPECT_NEAR(first(overdue), idle + 1, 1e-9);
}

TEST(LeastQueuedTokens, PutsNoModelAwayThatOthersWant) {
  Replicas two = idle(2);
  two[0].load_seconds = two[1].load_seconds = 3;
  two[0].eviction_seconds = 1;
  EXPECT_EQ(counts(config::Policy::least_queued_tokens, two, 10), (std::vector{0, 10}));
}

TEST(Forecast, WaitsForAPlaceInTheBatch) {
  const Job job{.prompt = 1000, .output = 100};
  ReplicaView full = view();
  full.streaming = full.in_flight = 4;
  full.decode_left = 4 * 50;
  const double open = forecast(job, full).first_token;
  full.slots = 4;
  const Forecast waits = forecast(job, full);
  EXPECT_TRUE(waits.for_slot);
  // One of four answers of 50 tokens more ends after a quarter of 50 steps.
  EXPECT_NEAR(waits.first_token - open, 50 * 0.024 / 4, 1e-9);
  full.slots = 5;
  EXPECT_FALSE(forecast(job, full).for_slot);
}

TEST(Forecast, KnowsTheAnswerAndWhatOthersWaitLonger) {
  const Job job{.prompt = 1000, .output = 100, .prompt_load = 0.5};
  ReplicaView busy = view();
  busy.streaming = busy.in_flight = 10;
  busy.context = 5000;
  busy.decode_left = 10 * 40;
  const Forecast made = forecast(job, busy);
  EXPECT_NEAR(made.decode, 100 * (0.02 + 11 * 0.001 + 6050 * 1e-7) / 0.5, 1e-9);
  // Forty more tokens of ten answers are in larger steps, and all ten wait for the prompt.
  EXPECT_NEAR(made.others, (0.001 + 1000 * 1e-7) * 10 * 40 + 10 * 0.1, 1e-9);
}

TEST(LeastQueuedTokens, TheScoreIsInSecondsByWeight) {
  const Job job{.prompt = 1000, .output = 100};
  ReplicaView one = view();
  const Forecast made = forecast(job, one);
  const double score = LeastQueuedTokens::score(job, one, 1);
  EXPECT_NEAR(score, made.first_token + 0.01 * (made.decode + made.others), 1e-12);
  one.waste = 500;
  EXPECT_NEAR(LeastQueuedTokens::score(job, one, 1), score + 500 * 1e-4, 1e-12);
  one.weight = 2;
  EXPECT_NEAR(LeastQueuedTokens::score(job, one, 4), (score + 500 * 1e-4) * 2, 1e-12);
}

TEST(LeastQueuedTokens, TakesTheLowestScore) {
  Replicas replicas = idle(3);
  replicas[0].prefill_left = 500;
  replicas[1].prefill_left = 400;
  replicas[1].in_flight = 50;
  replicas[2].prefill_left = 600;
  EXPECT_EQ(counts(config::Policy::least_queued_tokens, replicas, 10), (std::vector{0, 10, 0}));
}

/// A beginning that all prompts have is computed where it is not held, too: its price is nothing by then.
TEST(LeastQueuedTokens, AReplicaThatHasJustComeGetsItsShareOfWhatOthersHold) {
  Replicas replicas = idle(4);
  for (ReplicaView& one : replicas) {
    one.time = times;
    one.cached = 3000;
    one.in_flight = one.streaming = 8;
  }
  replicas[3].cached = 0;
  replicas[3].waste = -2999.9;
  replicas[3].fresh = true;
  replicas[3].in_flight = replicas[3].streaming = 0;
  Random random(1);
  const auto chooser = make(config::Policy::least_queued_tokens);
  int there = 0;
  for (int i = 0; i < 400; ++i)
    there += chooser->choose({.prompt = 3040, .output = 100}, replicas, random) == 3 ? 1 : 0;
  EXPECT_NEAR(there, 100, 40);
}

/// Weights say how much more one replica gets than another, so only their ratios count.
TEST(LeastQueuedTokens, WeightsCountByTheirRatio) {
  for (const double unit : {0.001, 1.0, 100.0}) {
    Replicas replicas = idle(2);
    for (ReplicaView& one : replicas) one.time = times;
    replicas[0].weight = 2 * unit;
    replicas[1].weight = unit;
    replicas[0].prefill_left = 200;
    EXPECT_EQ(counts(config::Policy::least_queued_tokens, replicas, 10), (std::vector{10, 0})) << unit;
    replicas[0].prefill_left = 5000;
    EXPECT_EQ(counts(config::Policy::least_queued_tokens, replicas, 10), (std::vector{0, 10})) << unit;
  }
}

/// An engine whose first token comes a little later than its peers' is no reason to leave it idle.
TEST(LeastQueuedTokens, AFewMillisecondsLeaveNoReplicaIdle) {
  Replicas replicas = idle(2);
  for (ReplicaView& one : replicas) one.time = times;
  replicas[1].time.token *= 1.01;
  replicas[0].in_flight = 1;
  EXPECT_EQ(counts(config::Policy::least_queued_tokens, replicas, 10), (std::vector{0, 10}));
  replicas[1].time.token *= 2;
  EXPECT_EQ(counts(config::Policy::least_queued_tokens, replicas, 10), (std::vector{10, 0}));
}

TEST(LeastQueuedTokens, TiesGoToTheFewestInFlightThenAtRandom) {
  Replicas replicas = idle(4);
  replicas[0].in_flight = 2;
  for (std::size_t i = 1; i < 4; ++i) replicas[i].in_flight = 1;
  const auto chosen = counts(config::Policy::least_queued_tokens, replicas, 3000);
  EXPECT_EQ(chosen[0], 0);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_NEAR(chosen[i], 1000, 120);
}

TEST(RoundRobin, GoesAround) {
  Random random(1);
  const auto chooser = make(config::Policy::round_robin);
  const Replicas replicas = idle(3);
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(chooser->choose({.prompt = 1}, replicas, random), static_cast<std::size_t>(i % 3));
}

TEST(RoundRobin, FollowsTheWeightsEvenly) {
  Random random(1);
  const auto chooser = make(config::Policy::round_robin);
  Replicas replicas = idle(3);
  replicas[0].weight = 5;
  std::string order;
  for (int i = 0; i < 7; ++i) order += static_cast<char>('a' + chooser->choose({.prompt = 1}, replicas, random));
  EXPECT_EQ(order, "aabacaa");
}

TEST(RoundRobin, AReplicaThatComesBackHasNothingSavedUp) {
  Random random(1);
  const auto chooser = make(config::Policy::round_robin);
  const Replicas all = idle(3);
  const Replicas two(all.begin(), all.begin() + 2);
  for (int i = 0; i < 100; ++i) chooser->choose({.prompt = 1}, two, random);
  std::map<std::size_t, int> chosen;
  for (int i = 0; i < 30; ++i) ++chosen[chooser->choose({.prompt = 1}, all, random)];
  EXPECT_EQ(chosen, (std::map<std::size_t, int>{{0, 10}, {1, 10}, {2, 10}}));
}

TEST(RandomReplica, FollowsTheWeights) {
  Replicas replicas = idle(3);
  replicas[1].weight = 2;
  const auto chosen = counts(config::Policy::random, replicas, 8000);
  EXPECT_NEAR(chosen[0], 2000, 150);
  EXPECT_NEAR(chosen[1], 4000, 180);
  EXPECT_NEAR(chosen[2], 2000, 150);
}

TEST(LeastRequests, TakesTheFewestByWeightAndTiesAtRandom) {
  Replicas replicas = idle(3);
  replicas[0].in_flight = 4;
  replicas[0].weight = 4;
  replicas[1].in_flight = 2;
  replicas[2].in_flight = 1;
  const auto chosen = counts(config::Policy::least_requests, replicas, 2000);
  EXPECT_NEAR(chosen[0], 1000, 100);
  EXPECT_EQ(chosen[1], 0);
  EXPECT_NEAR(chosen[2], 1000, 100);
}

TEST(LeastRequests, AFailureOfTheLastSecondCountsAsInFlight) {
  Replicas replicas = idle(2);
  replicas[0].recent_failures = 3;
  replicas[1].in_flight = 2;
  EXPECT_EQ(counts(config::Policy::least_requests, replicas, 10), (std::vector{0, 10}));
}

TEST(PowerOfTwo, NeverTakesTheBusiestAndMostOftenTheIdlest) {
  Replicas replicas = idle(4);
  for (std::size_t i = 0; i < 4; ++i) replicas[i].in_flight = static_cast<std::uint32_t>(i);
  const auto chosen = counts(config::Policy::power_of_two, replicas, 6000);
  EXPECT_NEAR(chosen[0], 3000, 200);  // It is in 3 of the 6 pairs.
  EXPECT_NEAR(chosen[1], 2000, 200);
  EXPECT_NEAR(chosen[2], 1000, 150);
  EXPECT_EQ(chosen[3], 0);
}

TEST(EveryPolicy, TakesTheOnlyOneAndRepeatsItselfWithTheSameSeed) {
  for (const auto policy : {config::Policy::least_queued_tokens, config::Policy::round_robin, config::Policy::random,
                            config::Policy::least_requests, config::Policy::power_of_two}) {
    EXPECT_EQ(counts(policy, idle(1), 10), std::vector{10});
    EXPECT_EQ(counts(policy, idle(5), 100, 42), counts(policy, idle(5), 100, 42));
  }
}

}  // namespace
}  // namespace weir::balancer::policy
