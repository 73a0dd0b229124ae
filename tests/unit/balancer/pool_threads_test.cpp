// Many threads use one pool. Under ThreadSanitizer this tests that the mutex and the atomics cover everything.
#include <atomic>
#include <mutex>
#include <optional>
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
        const ReplicaLoad load = pool->figures().load(i, at(0));
        // A counter below zero would be near 2^64.
        EXPECT_LT(load.decode_left, 1'000'000u);
        EXPECT_LT(load.prefill_left, 1'000'000'000u);
        EXPECT_LT(load.resident, 10'000'000u);
      }
      EXPECT_LE(pool->figures().in_flight(), 8u * 4u);
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
        leases.push_back(admitted(place(*pool, facts, now)));
        for (Lease& lease : leases) {
          if (random() % 2) lease.first_token(now);
          for (int k = 0; k < 20; ++k) lease.tokens(1);
        }
        if (random() % 2) {
          LeaseEnd end(random() % 2 == 0 ? EndCause::answered : EndCause::replica_failed);
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

// Grants of one thread are taken on another.
class SharedInbox final : public GrantSink {
 public:
  void grant(std::vector<Granted> granted) noexcept override {
    const std::lock_guard lock(mutex_);
    for (Granted& one : granted) granted_.push_back(std::move(one));
  }
  std::optional<Granted> take() {
    const std::lock_guard lock(mutex_);
    if (granted_.empty()) return std::nullopt;
    Granted one = std::move(granted_.back());
    granted_.pop_back();
    return one;
  }

 private:
  std::mutex mutex_;
  std::vector<Granted> granted_;
};

TEST(PoolThreads, EachOfThoseThatWaitIsToldOnceWhoeverFreesItsPlace) {
  SharedInbox inbox;
  auto pool = Pool::make(config::Policy::least_queued_tokens, 1, &inbox);
  std::vector<ReplicaSpec> specs{replica("a"), replica("b")};
  for (ReplicaSpec& spec : specs) spec.max_in_flight = 3;
  pool->set_replicas(specs, at(0));
  std::atomic<int> asked = 0, told = 0;
  const auto take = [&](std::vector<Lease>& leases) {
    while (auto granted = inbox.take()) {
      ++told;
      if (auto* const lease = std::get_if<Lease>(&granted->what)) leases.push_back(std::move(*lease));
    }
  };
  std::vector<std::thread> loops;
  for (std::uint64_t t = 0; t < 8; ++t) {
    loops.emplace_back([&, t] {
      std::mt19937_64 random(t);
      std::vector<Lease> leases;
      std::vector<WaitTicket> tickets;
      const auto waiter = std::make_shared<int>(0);
      for (int i = 0; i < 500; ++i) {
        const Moment now = at(0.001 * i);
        const RequestFacts facts = prompt_of(random() % 1000, 50);
        auto offered = pool->offer({.facts = shared(facts), .fair_key = t, .waiter = waiter}, now);
        ++asked;
        if (auto* const admitted = std::get_if<Admitted>(&offered)) leases.push_back(std::move(admitted->lease));
        const auto* const waiting = std::get_if<Waiting>(&offered);
        if (waiting) tickets.push_back(waiting->ticket);
        if (!waiting) ++told;
        if (random() % 3 == 0 && !tickets.empty()) {
          if (pool->leave(tickets.back(), now)) ++told;
          tickets.pop_back();
        }
        take(leases);
        for (Lease& lease : leases) lease.first_token(now);
        if (random() % 2) leases.clear();
        if (t == 0) pool->health().take_changes(now);
        EXPECT_LE(pool->figures().queue(now).waiting, 256u);
      }
      for (const WaitTicket ticket : tickets)
        if (pool->leave(ticket, at(1))) ++told;
    });
  }
  for (std::thread& loop : loops) loop.join();
  std::vector<Lease> rest;
  take(rest);
  while (!rest.empty()) {
    rest.clear();
    take(rest);
  }
  EXPECT_EQ(asked, told);
  EXPECT_EQ(pool->figures().queue(at(1)).waiting, 0u);
  expect_idle(*pool, 2, at(4));
}

}  // namespace
}  // namespace weir::balancer
