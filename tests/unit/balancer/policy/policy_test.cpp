#include "balancer/policy/policy.hpp"

#include <map>

#include "balancer/policy/least_queued_tokens.hpp"
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
  const auto chooser = make(policy, 0.05);
  std::vector<int> chosen(replicas.size());
  for (int i = 0; i < turns; ++i) ++chosen[chooser->choose(100, replicas, random)];
  return chosen;
}

TEST(LeastQueuedTokens, ScoresByHand) {
  struct Row {
    double decode_weight;
    Tokens prompt, prefill_left, decode_left;
    double weight, speed, score;
  };
  const Row rows[] = {
      {0.05, 100, 0, 0, 1, 1, 100},        {0.05, 100, 900, 0, 1, 1, 1000},
      {0.05, 100, 900, 2000, 1, 1, 1100},  {0, 100, 900, 2000, 1, 1, 1000},
      {0.05, 100, 900, 2000, 2, 1, 550},   {0.05, 100, 900, 2000, 1, 0.5, 2200},
      {0.05, 100, 900, 2000, 0.5, 4, 550}, {1, 0, 0, 7, 1, 1, 7},
  };
  for (const Row& row : rows) {
    ReplicaView view;
    view.prefill_left = row.prefill_left;
    view.decode_left = row.decode_left;
    view.weight = row.weight;
    view.speed = row.speed;
    EXPECT_DOUBLE_EQ(LeastQueuedTokens(row.decode_weight).score(row.prompt, view), row.score);
  }
}

TEST(LeastQueuedTokens, TakesTheLowestScore) {
  Replicas replicas = idle(3);
  replicas[0].prefill_left = 500;
  replicas[1].prefill_left = 400;
  replicas[1].in_flight = 50;
  replicas[2].prefill_left = 600;
  EXPECT_EQ(counts(config::Policy::least_queued_tokens, replicas, 10), (std::vector{0, 10, 0}));
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
  const auto chooser = make(config::Policy::round_robin, 0);
  const Replicas replicas = idle(3);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(chooser->choose(1, replicas, random), static_cast<std::size_t>(i % 3));
}

TEST(RoundRobin, FollowsTheWeightsEvenly) {
  Random random(1);
  const auto chooser = make(config::Policy::round_robin, 0);
  Replicas replicas = idle(3);
  replicas[0].weight = 5;
  std::string order;
  for (int i = 0; i < 7; ++i) order += static_cast<char>('a' + chooser->choose(1, replicas, random));
  EXPECT_EQ(order, "aabacaa");
}

TEST(RoundRobin, AReplicaThatComesBackHasNothingSavedUp) {
  Random random(1);
  const auto chooser = make(config::Policy::round_robin, 0);
  const Replicas all = idle(3);
  const Replicas two(all.begin(), all.begin() + 2);
  for (int i = 0; i < 100; ++i) chooser->choose(1, two, random);
  std::map<std::size_t, int> chosen;
  for (int i = 0; i < 30; ++i) ++chosen[chooser->choose(1, all, random)];
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
