// Limits of queued tokens, memory and starting replicas, where a part of a prompt is already computed.
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/balancer/pool_prefix/pool_prefix.hpp"

namespace weir::balancer {
namespace {

TEST_F(PoolPrefix, WhatIsHeldIsNoWorkAndTakesNoMoreRoom) {
  begin(1);
  serve(1, 2000, 1);
  Lease lease = admitted(offer(1, 2100, 2));
  const Tokens cached = lease.prefix_tokens()->predicted;
  EXPECT_GE(cached, 1900u);
  EXPECT_EQ(load(0, 2).prefill_left, 2100 - cached);
  EXPECT_EQ(load(0, 2).resident, 2100 - cached);
  EXPECT_EQ(lease.prompt_estimate(), 2100u);
  lease.end(LeaseEnd(EndCause::client_left), at(3));
  EXPECT_EQ(load(0, 3).prefill_left, 0u);
  EXPECT_EQ(load(0, 3).resident, 0u);
}

/// Requests that share a beginning have it in the cache once, so that its replica has room for all of them.
TEST_F(PoolPrefix, ABeginningThatRequestsShareTakesItsRoomOnce) {
  specs = {replica("a"), replica("b")};
  for (ReplicaSpec& spec : specs) spec.kv_tokens = 3000;
  begin(0);
  const ReplicaIndex home = serve(1, 2000, 1);
  std::vector<Lease> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(admitted(offer(1, 2100, 2)));
    EXPECT_EQ(all.back().replica(), home) << i;
  }
}

TEST_F(PoolPrefix, ALimitOfQueuedTokensCountsWhatIsToBeComputed) {
  specs.push_back(replica("a"));
  specs[0].max_queued_tokens = 1000;
  begin(0);
  serve(1, 2000, 1);
  Lease first = admitted(offer(2, 500, 2));
  Lease second = admitted(offer(1, 2100, 2));
  EXPECT_TRUE(second) << "100 tokens and 500 are within the limit.";
  auto third = offer(3, 2100, 2, {}, named("third"));
  EXPECT_TRUE(std::holds_alternative<Waiting>(third)) << "2100 more are not.";
  first.first_token(at(3));
  second.first_token(at(3));
  EXPECT_EQ(sink.take().first, "third");
}

TEST_F(PoolPrefix, AReplicaThatStartsHasFinishedWhatItComputedAndNoMore) {
  Lease peers = begin_beside_a_full_one();
  for (double now = 1; now < 5; ++now) EXPECT_EQ(serve(1, 2000, now), 1u);
  ASSERT_EQ(pool->health().of(pool->figures().key(1), at(5)).state, ReplicaState::starting);
  Lease one = admitted(offer(2, 100, 5));
  EXPECT_TRUE(std::holds_alternative<Waiting>(offer(3, 6000, 5, {}, named("long")))) << "It may hold 4006 tokens.";
}

TEST_F(PoolPrefix, AReplicaThatStartsMayHoldMoreOfWhatItHasComputed) {
  Lease peers = begin_beside_a_full_one();
  EXPECT_EQ(serve(1, 2000, 1), 1u);
  Lease one = admitted(offer(2, 100, 5));
  EXPECT_TRUE(admitted(offer(1, 5800, 5, {}, named("long")))) << "3800 of it are to be computed, and it may hold 4000.";
}

/// Answers that are not streamed have finished what was computed, too.
TEST_F(PoolPrefix, AnswersWithoutAStreamHaveFinishedWhatWasComputed) {
  Lease peers = begin_beside_a_full_one();
  for (double now = 1; now < 4; now += 0.5) {
    PlacementRequest placement{shared(not_streamed(prompt_of(2000)))};
    placement.prefix = prefix_of(1, 2000);
    Lease lease = admitted(pool->offer(placement, at(now)));
    ASSERT_EQ(lease.replica(), 1u);
    lease.end(LeaseEnd(EndCause::answered), at(now + 0.1));
  }
  Lease one = admitted(offer(2, 100, 5));
  EXPECT_TRUE(std::holds_alternative<Waiting>(offer(3, 6000, 5, {}, named("long"))));
}

TEST_F(PoolPrefix, ThePoolsOwnLimitCountsWhatIsToBeComputed) {
  begin(2);
  PoolLimits limits;
  limits.max_queued_tokens = 1000;
  pool->set_limits(limits, at(0));
  serve(1, 2000, 1);
  Lease first = admitted(offer(2, 500, 2));
  EXPECT_TRUE(admitted(offer(1, 2100, 2, {}, named("known"))));
  EXPECT_TRUE(std::holds_alternative<Waiting>(offer(3, 2100, 2, {}, named("new"))));
}

/// A replica is kept free for a long prompt, and the pool has room for the prompt only at the other, which holds most
/// of it but has had the request before.
TEST_F(PoolPrefix, ALongPromptGoesWhereThePoolHasRoomForIt) {
  specs = {replica("a"), replica("b")};
  specs[0].max_in_flight = 1;
  begin(0);
  PoolLimits limits;
  limits.max_queued_tokens = 6000;
  limits.queue = 8;
  pool->set_limits(limits, at(0));
  const std::uint64_t a[] = {pool->figures().key(0).serial}, b[] = {pool->figures().key(1).serial};
  Lease before = admitted(offer(1, 4900, 1, a));
  ASSERT_EQ(before.replica(), 1u);
  before.first_token(at(1));
  LeaseEnd end(EndCause::answered);
  end.prompt_tokens = 4900;
  before.end(end, at(1));
  Lease on_a = admitted(offer(7, 2000, 2, b)), on_b = admitted(offer(8, 3950, 2, a));
  ASSERT_EQ(on_a.replica(), 0u);
  ASSERT_EQ(on_b.replica(), 1u);
  EXPECT_TRUE(std::holds_alternative<Waiting>(offer(1, 5000, 2, b, named("long"))));
  std::vector<Lease> others;
  for (int i = 0; i < 40; ++i) {
    const double now = 2 + 0.1 * i;
    auto offered = offer(100 + static_cast<std::uint64_t>(i), 10, now, {}, named("short"));
    if (auto* const admitted = std::get_if<Admitted>(&offered)) others.push_back(std::move(admitted->lease));
    pool->health().take_changes(at(now));
    while (!sink.all.empty()) {
      auto [name, lease] = sink.take();
      ASSERT_EQ(name, "short");
      others.push_back(std::move(lease));
    }
    for (auto& lease : others) lease.first_token(at(now));
  }
  on_a.first_token(at(7));
  on_a.end(LeaseEnd(EndCause::answered), at(7));
  bool went = false;
  while (!sink.all.empty()) {
    auto [name, lease] = sink.take();
    if (name != "long") continue;
    went = true;
    EXPECT_EQ(lease.replica(), 1u);
  }
  EXPECT_TRUE(went);
}

/// A replica is kept free for a long prompt and becomes free while the pool has no room for the prompt there: what
/// other replicas have queued stands against it. The prompt then goes to the replica that holds most of it, although
/// that one has had the request before.
TEST_F(PoolPrefix, ALongPromptGoesElsewhereWhereThePoolHasNoRoomAtTheReplicaThatIsKeptFree) {
  specs = {replica("a"), replica("b"), replica("c")};
  specs[0].max_in_flight = specs[1].max_in_flight = 1;
  specs[2].max_context = 6000;  // Too short for the long prompt and its answer.
  for (auto& spec : specs) spec.health.eject = false;
  begin(0);
  PoolLimits limits;
  limits.max_queued_tokens = 6000;
  limits.queue = 8;
  pool->set_limits(limits, at(0));
  const Serial a = pool->figures().key(0).serial, b = pool->figures().key(1).serial, c = pool->figures().key(2).serial;
  const auto only = [](Serial one, Serial other) {
    std::vector<Serial> tried{one, other};
    std::ranges::sort(tried);
    return tried;
  };
  const auto to_a = only(b, c), to_b = only(a, c);
  Lease before = admitted(offer(1, 4900, 1, to_b));
  ASSERT_EQ(before.replica(), 1u);
  before.first_token(at(1));
  before.end(LeaseEnd(EndCause::answered), at(1));
  Lease on_a = admitted(offer(7, 100, 2, to_a)), on_b = admitted(offer(8, 100, 2, to_b));
  ASSERT_EQ(on_a.replica(), 0u);
  ASSERT_EQ(on_b.replica(), 1u);
  on_a.first_token(at(2));
  on_b.first_token(at(2));

  PlacementRequest long_one{shared(prompt_of(5000, 2000)), {b}};
  long_one.prefix = prefix_of(1, 5000);
  long_one.waiter = named("long");
  ASSERT_TRUE(std::holds_alternative<Waiting>(pool->offer(long_one, at(2))));
  // Short ones pass it for as long as that may be, so that a replica is kept free for it.
  for (int i = 0; i < 40; ++i) {
    const double now = 2 + 0.2 * i;
    Lease passing = admitted(offer(100 + static_cast<std::uint64_t>(i), 10, now, {}, named("short")));
    ASSERT_EQ(passing.replica(), 2u);
    passing.first_token(at(now));
    passing.end(LeaseEnd(EndCause::answered), at(now));
  }
  Lease filling = admitted(offer(200, 5800, 10, {}, named("filling")));
  ASSERT_EQ(filling.replica(), 2u);
  on_a.end(LeaseEnd(EndCause::answered), at(11));
  EXPECT_TRUE(sink.all.empty()) << "5,800 and 5,000 are more than 6,000.";
  on_b.end(LeaseEnd(EndCause::answered), at(12));
  ASSERT_EQ(sink.all.size(), 1u);
  auto [name, lease] = sink.take();
  EXPECT_EQ(name, "long");
  EXPECT_EQ(lease.replica(), 1u);
}

/// The pool's limit bounds what its replicas have to compute, wherever a prompt goes: the replica that holds it may be
/// full.
TEST_F(PoolPrefix, NothingGoesBeyondThePoolsOwnLimit) {
  constexpr Tokens most = 3000;
  std::size_t elsewhere = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    std::mt19937_64 random(seed);
    specs.clear();
    for (const char* name : {"a", "b", "c"}) specs.push_back(replica(name));
    for (auto& spec : specs) {
      spec.max_in_flight = 1 + random() % 3;
      if (seed % 2) spec.kv_tokens = 1000 + random() % 4000;
      if (seed % 3 == 0) spec.max_queued_tokens = 500 + random() % 2500;
    }
    begin(0);
    PoolLimits limits;
    limits.max_queued_tokens = most;
    limits.queue = random() % 2 ? 0 : 8;
    pool->set_limits(limits, at(0));
    std::vector<Lease> leases;
    const auto keep = [&](Lease lease) {
      const auto known = lease.prefix_tokens();
      elsewhere += known && known->predicted < known->best;
      leases.push_back(std::move(lease));
    };
    const double each = seed % 5 == 0 ? 0.01 : 0.2;  // Of the longer ones, requests wait until a replica is kept free.
    for (int step = 0; step < 300; ++step) {
      const double now = 1 + each * step;
      pool->health().take_changes(at(now));
      if (random() % 2) {
        const Tokens tokens = 64 * (1 + random() % 46);
        auto offered = offer(random() % 5, tokens, now, {}, limits.queue > 0 ? named("one") : nullptr);
        if (auto* const admitted = std::get_if<Admitted>(&offered)) keep(std::move(admitted->lease));
      } else if (!leases.empty()) {
        const std::size_t which = random() % leases.size();
        leases[which].first_token(at(now));
        if (random() % 2) {
          const bool failed = seed % 4 == 0 && random() % 6 == 0;
          leases[which].end(LeaseEnd(failed ? EndCause::replica_failed : EndCause::answered), at(now));
          leases.erase(leases.begin() + static_cast<std::ptrdiff_t>(which));
        }
      }
      while (!sink.all.empty()) keep(sink.take().second);
      Tokens queued = 0;
      for (ReplicaIndex i = 0; i < 3; ++i) queued += load(i, now).prefill_left;
      ASSERT_LE(queued, most) << "seed " << seed << ", step " << step;
    }
    // A lease that ends grants to those that wait, and so does time: failed replicas rest for some seconds.
    for (double now = 100; now < 200; now += 0.5) {
      for (Lease& lease : leases) lease.end(LeaseEnd(EndCause::answered), at(now));
      leases.clear();
      pool->health().take_changes(at(now));
      while (!sink.all.empty()) leases.push_back(sink.take().second);
    }
    EXPECT_TRUE(leases.empty());
    EXPECT_EQ(pool->figures().queue(at(200)).waiting, 0u) << "seed " << seed;
  }
  EXPECT_GT(elsewhere, 10u) << "Some went to a replica that holds less of them than another.";
}

TEST_F(PoolPrefix, ARetryAfterCountsWhatIsToBeComputed) {
  specs.push_back(replica("a"));
  specs[0].max_in_flight = 1;
  begin(0);
  PoolLimits limits;
  limits.queue = 0;
  pool->set_limits(limits, at(0));
  serve(1, 100'000, 1);
  Lease busy = admitted(offer(2, 100, 100));
  const Offered refused = offer(1, 100'100, 100);
  EXPECT_LE(std::get<Refused>(refused).retry_after, 5u) << "It is 100 tokens, and not 100,100.";
}

}  // namespace
}  // namespace weir::balancer
