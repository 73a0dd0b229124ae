#include <numeric>

#include "simulation.hpp"

namespace weir::balancer {
namespace {

std::vector<ReplicaSpec> four() { return {replica("a"), replica("b"), replica("c"), replica("d")}; }

Tokens any_size(std::mt19937_64& random) {
  std::lognormal_distribution<double> size(6.2, 0.9);  // The mean is about 740 tokens.
  return static_cast<Tokens>(std::clamp(size(random), 10.0, 8000.0));
}
Tokens one_size(std::mt19937_64&) { return 500; }

template <class T>
double share(const std::vector<T>& values, std::size_t i) {
  return static_cast<double>(values[i]) / static_cast<double>(std::accumulate(values.begin(), values.end(), T{0}));
}

// A fair share would be 25 %. Three good ones have a prompt in their queue for 0.3 s, the bad one for 1.001 s, so it
// gets about 0.3 / 1.001 of what a good one gets.
TEST(PoolSimulation, AReplicaThatFailsInAMillisecondDoesNotDrawTheTraffic) {
  auto pool = pool_of(four());
  ReplicaModel good, bad;
  good.fixed = 0.3;
  bad.fixed = 0.001;
  bad.fails = true;
  Simulation simulation(pool, {good, bad, good, good}, 5);
  simulation.run(100, 60, one_size);
  EXPECT_LT(share(simulation.offered, 1), 0.2);
  simulation.finish_everything();
  expect_idle(*pool, 4, at(simulation.now()));
}

// Policies that count requests see each failure as one in flight for 1 s. A good one has a request for 1.28 s, so the
// bad one still gets somewhat more than its share; without that memory it would get nearly all.
TEST(PoolSimulation, NorDoesItUnderPoliciesThatCountRequests) {
  for (const auto policy : {config::Policy::least_requests, config::Policy::power_of_two}) {
    auto pool = pool_of(four(), policy);
    ReplicaModel good, bad;
    good.fixed = 0.3;
    bad.fixed = 0.001;
    bad.fails = true;
    Simulation simulation(pool, {good, bad, good, good}, 5);
    simulation.run(100, 60, one_size);
    EXPECT_LT(share(simulation.offered, 1), 0.32) << static_cast<int>(policy);
  }
}

TEST(PoolSimulation, AReplicaAtHalfSpeedIsLearnedAndGetsHalfTheTokens) {
  auto pool = pool_of(four());
  ReplicaModel full, half;
  full.prefill_rate = 10'000;
  half.prefill_rate = 5'000;
  Simulation simulation(pool, {full, full, half, full}, 5);
  const double arrivals = 0.95 * 35'000 / 740;
  simulation.run(arrivals, 120, any_size);
  simulation.offered_tokens.assign(4, 0);
  simulation.run(arrivals, 300, any_size);

  const Moment now = at(simulation.now());
  const auto token = [&](ReplicaIndex i) {
    const TimeModel time = pool->figures().load(i, now).time;
    return time.first_steps * time.step + 740 * time.token;
  };
  for (const ReplicaIndex i : {0u, 1u, 3u}) {
    EXPECT_GT(token(2) / token(i), 1.3);
    EXPECT_LT(token(2) / token(i), 2.3);
    EXPECT_NEAR(share(simulation.offered_tokens, 2) / share(simulation.offered_tokens, i), 0.5, 0.1);
  }
}

// Whatever the prefix caches hold, equal engines have equal speeds, and unequal ones keep their order. A step of an
// engine takes its time, however little it computes.
TEST(PoolSimulation, ACacheHitIsNoSlowness) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    for (const double step : {0.0, 0.02}) {
      for (const double hits : {0.0}) {
        for (const double other_hits : {0.0, 0.6}) {
          SCOPED_TRACE(testing::Message() << "step " << step << ", hits " << hits << " and " << other_hits);
          ReplicaModel one, other;
          one.prefill_rate = other.prefill_rate = 10'000;
          one.step = other.step = step;
          one.hit_rate = hits;
          other.hit_rate = other_hits;
          auto pool = pool_of({replica("a"), replica("b")});
          Simulation equal(pool, {one, other}, seed);
          equal.run(8, 100, any_size);
          const auto seconds = [](Pool& of, ReplicaIndex i, double now) {
            const TimeModel time = of.figures().load(i, at(now)).time;
            return time.first_steps * time.step + 500 * time.token;
          };
          const double by = seconds(*pool, 1, equal.now()) / seconds(*pool, 0, equal.now());
          EXPECT_GE(by, 0.4);
          EXPECT_LE(by, 2.5);
          if (hits > 0 || other_hits > 0) continue;
          other.prefill_rate = 5'000;
          auto unequal_pool = pool_of({replica("a"), replica("b")});
          Simulation unequal(unequal_pool, {one, other}, seed);
          unequal.run(8, 100, any_size);
          EXPECT_GT(seconds(*unequal_pool, 1, unequal.now()), 1.25 * seconds(*unequal_pool, 0, unequal.now()));
        }
      }
    }
  }
}

// The learned rates of equal replicas are never quite equal, and must not send all requests to one of them while queues
// are mostly empty.
TEST(PoolSimulation, EqualReplicasGetEqualTokensAtLightLoadToo) {
  auto pool = pool_of(four());
  ReplicaModel model, slightly_faster;
  model.prefill_rate = 10'000;
  slightly_faster.prefill_rate = 10'500;
  Simulation simulation(pool, {model, slightly_faster, model, model}, 11);
  simulation.run(30, 60, any_size);
  simulation.offered_tokens.assign(4, 0);
  simulation.run(1, 3000, any_size);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(share(simulation.offered_tokens, i), 0.25, 0.04);
}

}  // namespace
}  // namespace weir::balancer
