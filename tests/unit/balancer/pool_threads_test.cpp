// Many threads use one pool. Under ThreadSanitizer this tests that the mutex and the atomics cover everything.
#include <atomic>
#include <random>
#include <thread>

#include "balancer/pool.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

TEST(PoolThreads, EightOfThemLeaveNothingBehind) {
  auto pool = pool_of({replica("a"), replica("b"), replica("c")});
  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> served = 0;

  std::thread scraper([&] {
    while (!done) {
      for (ReplicaIndex i = 0; i < 3; ++i) {
        const ReplicaLoad load = pool->load(i, at(0));
        // A counter below zero would be near 2^64.
        EXPECT_LT(load.decode_left, 1'000'000u);
        EXPECT_LT(load.prefill_left, 1'000'000'000u);
        EXPECT_LT(load.resident, 10'000'000u);
      }
      EXPECT_LE(pool->in_flight(), 8u * 4u);
    }
  });

  std::vector<std::thread> loops;
  for (std::uint64_t t = 0; t < 8; ++t) {
    loops.emplace_back([&, t] {
      std::mt19937_64 random(t);
      std::vector<Lease> leases;
      for (int i = 0; i < 500; ++i) {
        const Moment now = at(0.001 * i);
        RequestFacts facts = prompt_of(random() % 1000, 50);
        facts.stream = random() % 4 != 0;
        if (leases.size() == 4) leases.erase(leases.begin());
        leases.push_back(admitted(pool->offer(facts, now)));
        for (Lease& lease : leases) {
          if (random() % 2) lease.first_token(now);
          for (int k = 0; k < 20; ++k) lease.tokens(1);
        }
        if (random() % 2) {
          End end(random() % 2 == 0 ? EndCause::answered : EndCause::replica_failed);
          end.prompt_tokens = leases.front().prompt_estimate();
          end.output_tokens = 20;
          leases.front().end(end, now);
          ++served;
        }
      }
    });
  }
  for (std::thread& loop : loops) loop.join();
  done = true;
  scraper.join();

  EXPECT_GT(served, 1000u);
  expect_idle(*pool, 3, at(2));
}

}  // namespace
}  // namespace weir::balancer
