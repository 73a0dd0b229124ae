// A replica is kept free for a request that fits nowhere while others go.
#include "pool_queue.hpp"

namespace weir::balancer {
namespace {

// Two replicas hold 1000 tokens each. A prompt of 2000 waits, and since 2 s others go in its place.
class PoolReservation : public PoolQueue {
 protected:
  void fill(PoolLimits limits = {}) {
    begin({tokens("a", 1000), tokens("b", 1000)}, limits);
    for (int i = 0; i < 20; ++i) keep(admit({"small", 100}, 1));
  }
  void pass_over(Wish huge) {
    huge.name = "huge";
    huge.prompt = 2000;
    huge.key = 1;
    wait(huge, 1);
    for (int i = 0; i < 40; ++i) wait({"passes", 100, 2}, 1);
    for (ReplicaIndex i = 0; i < 2; ++i) EXPECT_EQ(first_tokens(i, 3, 2), (Got{{"passes", 3}}));
    tick(7.5);
  }
  using Got = std::map<std::string, int>;
  /// The oldest prompts of a replica are done. Returns what gets a replica then.
  Got first_tokens(ReplicaIndex replica, std::size_t prompts, double now) {
    for (; prompts > 0; --prompts) {
      on[replica].front().first_token(at(now));
      done.push_back(std::move(on[replica].front()));
      on[replica].pop_front();
    }
    Got got;
    for (auto [name, lease] = sink.take(); lease; std::tie(name, lease) = sink.take()) {
      ++got[name];
      keep(std::move(lease));
    }
    return got;
  }
  void keep(Lease lease) {
    const ReplicaIndex replica = lease.replica();
    on[replica].push_back(std::move(lease));
  }
  void tell_context(ReplicaIndex replica, Tokens context) {
    pool->health().engine_told(pool->figures().key(replica), {{}, context});
  }
  void TearDown() override {
    for (auto& leases : on) leases.clear();
    done.clear();
    PoolQueue::TearDown();
  }

  std::deque<Lease> on[2];
  std::vector<Lease> done;
};

TEST_F(PoolReservation, OneWhoseEngineToldAShorterContextIsNotKeptFreeWhereAnotherSuffices) {
  fill();
  tell_context(0, 1500);
  pass_over({});
  EXPECT_EQ(first_tokens(0, 10, 8), (Got{{"passes", 10}}));
  EXPECT_EQ(first_tokens(1, 9, 8), Got()) << "b is kept free";
  EXPECT_EQ(first_tokens(1, 1, 8), (Got{{"huge", 1}}));
}

TEST_F(PoolReservation, WhereNoContextSufficesOneIsKeptFreeAllTheSame) {
  fill();
  for (const ReplicaIndex i : {0U, 1U}) tell_context(i, 1500);
  pass_over({});
  EXPECT_EQ(first_tokens(0, 9, 8), Got());
  EXPECT_EQ(first_tokens(0, 1, 8), (Got{{"huge", 1}}));
}

TEST_F(PoolReservation, WhatAnEngineTellsLaterMovesIt) {
  fill();
  pass_over({});
  tell_context(0, 1500);
  EXPECT_EQ(first_tokens(0, 10, 8), (Got{{"passes", 10}})) << "a was kept free before";
  EXPECT_EQ(first_tokens(1, 9, 8), Got());
  EXPECT_EQ(first_tokens(1, 1, 8), (Got{{"huge", 1}}));
}

TEST_F(PoolReservation, OneThatHadTheRequestIsKeptFreeWhereTheOtherGoesOut) {
  fill();
  pass_over({.name = "", .tried = {pool->figures().key(0).serial}});
  EXPECT_EQ(first_tokens(0, 1, 8), (Got{{"passes", 1}})) << "b is kept free: it has not had the request";
  for (int i = 0; i < 3; ++i) pool->health().report(pool->figures().key(1), Sign::probe_failed, at(8));
  EXPECT_EQ(first_tokens(0, 9, 8), Got());
  EXPECT_EQ(first_tokens(0, 1, 8), (Got{{"huge", 1}}));
}

TEST_F(PoolReservation, OneThatHasJustSaidThatItIsFullIsNotKeptFree) {
  fill();
  pass_over({});
  pool->health().report(pool->figures().key(0), Sign::full, at(8), std::chrono::seconds(60));
  EXPECT_EQ(first_tokens(1, 9, 8), Got());
  EXPECT_EQ(first_tokens(1, 1, 8), (Got{{"huge", 1}}));
}

TEST_F(PoolReservation, ThePoolIsNotKeptFreeForOneThatNoReplicaWouldGet) {
  PoolLimits limits;
  limits.max_queued_tokens = 2000;
  fill(limits);
  pass_over({});
  EXPECT_EQ(first_tokens(0, 1, 8), Got()) << "the pool is kept free";
  ReplicaSpec specs[] = {tokens("a", 1000), tokens("b", 1000)};
  specs[1].max_context = 1500;
  pool->set_replicas(specs, at(9));
  pool->health().report(pool->figures().key(0), Sign::full, at(9), std::chrono::seconds(60));
  EXPECT_EQ(first_tokens(1, 1, 9), (Got{{"passes", 1}})) << "only a may take it, and a takes nothing now";
}

TEST_F(PoolReservation, ItEndsWhenItsRequestLeavesAsTheLast) {
  begin({tokens("a", 1000)});
  for (int i = 0; i < 10; ++i) keep(admit({"small", 100}, 1));
  const Waiting huge = wait({"huge", 2000, 1}, 1);
  wait({"passes", 100, 2}, 1);
  EXPECT_EQ(first_tokens(0, 1, 2), (Got{{"passes", 1}}));
  tick(7.5);
  EXPECT_EQ(first_tokens(0, 5, 8), Got());
  EXPECT_TRUE(pool->leave(huge.ticket, at(9)));
  keep(admitted(place(*pool, prompt_of(10), at(9))));
}

TEST_F(PoolReservation, ALongPromptIsPassedOverForFiveSecondsAndThenGetsAReplica) {
  begin({tokens("a", 1000), tokens("b", 1000)});
  std::vector<Lease> held[2];
  const auto hold = [&](Lease lease) { held[lease.replica()].push_back(std::move(lease)); };
  for (int i = 0; i < 20; ++i) hold(admit({"small", 100}, 1));
  wait({"huge", 5000, 1}, 1);
  // Every tenth of a second a prompt is done and a new one comes; the huge one never finds an empty replica.
  double now = 1, granted_at = 0;
  for (int i = 0; i < 200 && granted_at == 0; ++i) {
    now += 0.1;
    auto offered = offer({"small", 100, 2}, now);
    if (auto* lease = std::get_if<Admitted>(&offered)) hold(std::move(lease->lease));
    auto& leases = held[i % 2].empty() ? held[1 - i % 2] : held[i % 2];
    leases.front().first_token(at(now));
    leases.erase(leases.begin());
    for (auto next = sink.take(); next.second; next = sink.take()) {
      if (next.first == "huge") granted_at = now;
      hold(std::move(next.second));
    }
  }
  EXPECT_GT(granted_at, 6);
  EXPECT_LT(granted_at, 9.5) << "its replica had 1000 tokens to do and took no more";
}

}  // namespace
}  // namespace weir::balancer
