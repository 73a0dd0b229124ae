// What a pool makes of prompts whose beginnings its replicas have computed before.
#include <random>

#include "balancer/pool.hpp"
#include "prompts.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

class PoolPrefix : public testing::Test {
 protected:
  void begin(std::size_t replicas, std::optional<double> kappa = 1) {
    for (std::size_t i = 0; i < replicas; ++i) specs.push_back(replica(std::string(1, static_cast<char>('a' + i))));
    pool = Pool::make(config::Policy::least_queued_tokens, 0.05, 7, &sink);
    pool->set_prefix_aware(true, kappa);
    pool->set_replicas(specs, at(0));
  }
  Offered offer(std::uint64_t conversation, Tokens tokens, double now, std::span<const Serial> tried = {},
                std::shared_ptr<void> waiter = {}) {
    PlacementRequest placement{shared(prompt_of(tokens)), tried};
    placement.prefix = prefix_of(conversation, tokens);
    placement.waiter = std::move(waiter);
    return pool->offer(placement, at(now));
  }
  /// Has the request served at once. Returns its replica.
  ReplicaIndex serve(std::uint64_t conversation, Tokens tokens, double now, std::optional<Tokens> cached = {}) {
    Lease lease = admitted(offer(conversation, tokens, now));
    const ReplicaIndex to = lease.replica();
    lease.first_token(at(now));
    LeaseEnd end(EndCause::answered);
    end.prompt_tokens = tokens;
    end.cached_tokens = cached;
    lease.end(end, at(now));
    return to;
  }
  ReplicaLoad load(ReplicaIndex replica, double now) { return pool->figures().load(replica, at(now)); }

  Grantees sink;
  std::vector<ReplicaSpec> specs;
  std::shared_ptr<Pool> pool;
};

/// Where nothing is shared, prefixes change no choice, whatever kappa is: two pools make the same decisions.
TEST(PoolWithNothingToReuse, ChoosesAsOneThatKnowsOfNoPrefixes) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<ReplicaSpec> specs{replica("a"), replica("b", 2), replica("c"), replica("d", 0.5)};
    specs[2].max_queued_tokens = 6000;
    const auto plain = pool_of(specs, config::Policy::least_queued_tokens, seed);
    const auto aware = pool_of(specs, config::Policy::least_queued_tokens, seed);
    aware->set_prefix_aware(true, seed % 2 ? 3 : 1);
    std::vector<std::pair<Lease, Lease>> leases;
    double now = 1;
    for (std::uint64_t step = 0; step < 2000; ++step) {
      now += 0.001 * static_cast<double>(random() % 100);
      if (leases.size() < 5 || (random() % 2 && leases.size() < 60)) {
        const Tokens prompt = 1 + random() % 5000;
        PlacementRequest placement{shared(prompt_of(prompt))};
        Lease one = admitted(plain->offer(placement, at(now)));
        placement.prefix = prefix_of(step, prompt);
        Lease other = admitted(aware->offer(placement, at(now)));
        ASSERT_EQ(one.replica(), other.replica()) << "seed " << seed << ", step " << step;
        leases.emplace_back(std::move(one), std::move(other));
        continue;
      }
      auto& [one, other] = leases[random() % leases.size()];
      if (random() % 2) {
        one.first_token(at(now));
        other.first_token(at(now));
        continue;
      }
      LeaseEnd end(random() % 10 ? EndCause::answered : EndCause::replica_failed);
      end.prompt_tokens = one.prompt_estimate();
      one.end(end, at(now));
      other.end(end, at(now));
      std::erase_if(leases, [](const auto& pair) { return !pair.first; });
    }
  }
}

TEST_F(PoolPrefix, TheNextTurnGoesToItsReplicaWhileThatHasLessToCompute) {
  begin(3);
  const ReplicaIndex home = serve(1, 2000, 1);
  EXPECT_EQ(serve(1, 2200, 2), home);
  // Its replica has 1500 tokens before it, and only 200 of its own would be left to do there: the others have 2400.
  std::vector<Lease> busy;
  while (load(home, 3).prefill_left < 1500) busy.push_back(admitted(offer(100 + busy.size(), 500, 3)));
  Lease next = admitted(offer(1, 2400, 3));
  EXPECT_EQ(next.replica(), home);
  ASSERT_TRUE(next.prefix_tokens());
  EXPECT_EQ(next.prefix_tokens()->predicted, 2176u) << "The last 64 tokens before 2200 that have an anchor, and no end.";
}

TEST_F(PoolPrefix, AReplicaWithAnAncientBacklogIsLeftThoughItHoldsThePrompt) {
  begin(2);
  const ReplicaIndex home = serve(1, 2000, 1);
  const Serial other = pool->figures().key(1 - home).serial;
  const std::vector<Serial> only_home{other};
  Lease big = admitted(offer(50, 9000, 2, only_home));
  ASSERT_EQ(big.replica(), home);
  EXPECT_EQ(admitted(offer(1, 2200, 2)).replica(), 1 - home);
}

TEST_F(PoolPrefix, WorkThatIsDoneTwiceCostsKappa) {
  for (const auto& [kappa, stays] : {std::pair(1.0, false), std::pair(3.0, true)}) {
    specs.clear();
    begin(2, kappa);
    const ReplicaIndex home = serve(1, 2000, 1);
    const std::vector<Serial> only_home{pool->figures().key(1 - home).serial};
    Lease busy = admitted(offer(50, 3000, 2, only_home));
    EXPECT_EQ(admitted(offer(1, 2064, 2)).replica() == home, stays) << kappa;
  }
}

TEST_F(PoolPrefix, WhatIsHeldIsNoWorkAndYetFillsTheMemory) {
  begin(1);
  serve(1, 2000, 1);
  Lease lease = admitted(offer(1, 2100, 2));
  const Tokens cached = lease.prefix_tokens()->predicted;
  EXPECT_GE(cached, 1900u);
  EXPECT_EQ(load(0, 2).prefill_left, 2100 - cached);
  EXPECT_EQ(load(0, 2).resident, 2100u);
  EXPECT_EQ(lease.prompt_estimate(), 2100u);
  lease.end(LeaseEnd(EndCause::client_left), at(3));
  EXPECT_EQ(load(0, 3).prefill_left, 0u);
  EXPECT_EQ(load(0, 3).resident, 0u);
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
  specs.push_back(replica("a"));
  specs[0].max_in_flight = 1;
  begin(0);
  Lease peers = admitted(offer(9, 50'000, 0));
  specs.push_back(replica("b"));
  pool->set_replicas(specs, at(1));
  for (double now = 1; now < 5; ++now) EXPECT_EQ(serve(1, 2000, now), 1u);
  ASSERT_EQ(pool->health().of(pool->figures().key(1), at(5)).state, ReplicaState::starting);
  Lease one = admitted(offer(2, 100, 5));
  EXPECT_TRUE(std::holds_alternative<Waiting>(offer(3, 6000, 5, {}, named("long")))) << "It may hold 4006 tokens.";
}

TEST_F(PoolPrefix, AReplicaThatStartsMayHoldMoreOfWhatItHasComputed) {
  specs.push_back(replica("a"));
  specs[0].max_in_flight = 1;
  begin(0);
  Lease peers = admitted(offer(9, 50'000, 0));
  specs.push_back(replica("b"));
  pool->set_replicas(specs, at(1));
  EXPECT_EQ(serve(1, 2000, 1), 1u);
  Lease one = admitted(offer(2, 100, 5));
  EXPECT_TRUE(admitted(offer(1, 5800, 5, {}, named("long")))) << "3800 of it are to be computed, and it may hold 4000.";
}

/// Answers that are not streamed have finished what was computed, too.
TEST_F(PoolPrefix, AnswersWithoutAStreamHaveFinishedWhatWasComputed) {
  specs.push_back(replica("a"));
  specs[0].max_in_flight = 1;
  begin(0);
  Lease peers = admitted(offer(9, 50'000, 0));
  specs.push_back(replica("b"));
  pool->set_replicas(specs, at(1));
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

/// The pool's limit bounds what its replicas have to compute, wherever a prompt goes: the replica that holds it may be
/// full.
/// A replica is kept free for a long prompt, and the pool has room for the prompt only at the other, which holds most
/// of it but has had the request before.
TEST_F(PoolPrefix, ALongPromptGoesWhereThePoolHasRoomForIt) {
  specs = {replica("a"), replica("b")};
  specs[0].max_in_flight = 1;
  begin(0, {});
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

/// A replica is kept free for a long prompt and becomes free while the pool has no room for the prompt there: what other
/// replicas have queued stands against it. The prompt then goes to the replica that holds most of it, although that one
/// has had the request before.
TEST_F(PoolPrefix, ALongPromptGoesElsewhereWhereThePoolHasNoRoomAtTheReplicaThatIsKeptFree) {
  specs = {replica("a"), replica("b"), replica("c")};
  specs[0].max_in_flight = specs[1].max_in_flight = 1;
  specs[2].max_context = 6000;  // Too short for the long prompt and its answer.
  for (auto& spec : specs) spec.health.eject = false;
  begin(0, {});
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

  PlacementRequest long_one{shared(prompt_of(5000, 2000)), {&b, 1}};
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
    begin(0, {});
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

TEST_F(PoolPrefix, AClientThatIsRefusedComesBackWithWhatIsToBeComputed) {
  specs.push_back(replica("a"));
  specs[0].max_in_flight = 1;
  begin(0);
  PoolLimits limits;
  limits.queue = 0;
  pool->set_limits(limits, at(0));
  serve(1, 100'000, 1);
  Lease busy = admitted(offer(2, 100, 100));
  const auto retry_after = [&](std::uint64_t conversation, Tokens tokens, double now) {
    const Offered offered = offer(conversation, tokens, now);
    return std::get<Refused>(offered).retry_after;
  };
  retry_after(1, 100'100, 100);
  EXPECT_LE(retry_after(3, 100, 100), 5u) << "What has gone before it is 100 tokens, and not 100,100.";
}

/// Two replicas of the same speed, of which one holds four tenths of each prompt and reports nothing of it.
TEST_F(PoolPrefix, AReplicaIsNotTakenForAFastOneForWhatItDoesNotCompute) {
  begin(2);
  const std::vector<Serial> all{pool->figures().key(0).serial, pool->figures().key(1).serial};
  double now = 1;
  for (std::uint64_t i = 0; i < 40; ++i) {
    for (const ReplicaIndex to : {0u, 1u}) {
      PlacementRequest placement{shared(prompt_of(1000)), {&all[1 - to], 1}};
      auto prefix = *prefix_of(500, 400);
      prefix.anchors.push_back({10'000 + 2 * i + to, 1000});
      if (to == 0) prefix.anchors.erase(prefix.anchors.begin(), prefix.anchors.end() - 1);
      placement.prefix = std::make_shared<const metrics::wire::PromptPrefix>(prefix);
      Lease lease = admitted(pool->offer(placement, at(now)));
      ASSERT_EQ(lease.replica(), to);
      now += 0.001 * static_cast<double>(1000 - lease.prefix_tokens()->predicted);
      lease.first_token(at(now));
      LeaseEnd end(EndCause::answered);
      end.prompt_tokens = 1000;
      lease.end(end, at(now += 0.01));
    }
  }
  EXPECT_EQ(load(0, now).speed, 1);
  EXPECT_EQ(load(1, now).speed, 1);
}

TEST_F(PoolPrefix, OneThatWaitsIsGrantedByWhatReplicasHoldThen) {
  specs = {replica("a"), replica("b")};
  for (ReplicaSpec& spec : specs) spec.max_in_flight = 1;
  begin(0);
  Lease a = admitted(offer(10, 1000, 1)), b = admitted(offer(11, 1000, 1));
  ASSERT_TRUE(std::holds_alternative<Waiting>(offer(1, 3000, 1, {}, named("waits"))));
  const ReplicaIndex home = a.replica();
  // Meanwhile a sibling of the same prompt has been on a's replica.
  a.first_token(at(2));
  a.end(LeaseEnd(EndCause::answered), at(2));
  auto [name, lease] = sink.take();
  EXPECT_EQ(name, "waits");
  EXPECT_EQ(lease.replica(), home);
  EXPECT_EQ(lease.prefix_tokens()->predicted, 0u);
}

TEST_F(PoolPrefix, ReplicasThatRefuseConnectionsOrHaveStartedAnewHoldNothing) {
  begin(2);
  const auto held_by = [&](ReplicaIndex replica) { return load(replica, 5).prefix_held; };
  const ReplicaIndex home = serve(1, 2000, 1);
  EXPECT_EQ(held_by(home), 2000u);
  pool->health().report(pool->figures().key(home), Sign::failed, at(2));
  EXPECT_EQ(held_by(home), 2000u) << "A failure empties no cache.";
  pool->health().report(pool->figures().key(home), Sign::probe_refused, at(2));
  EXPECT_EQ(held_by(home), 0u);
  pool->health().report(pool->figures().key(home), Sign::probe_passed, at(3));

  const ReplicaIndex next = serve(2, 2000, 4);
  const auto tell = [&](double started) {
    pool->health().cache_told(pool->figures().key(next), {.started = started});
  };
  tell(1000);
  tell(1000);
  pool->health().engine_told(pool->figures().key(next), {});
  EXPECT_EQ(held_by(next), 2000u);
  tell(2000);
  EXPECT_EQ(held_by(next), 0u);
  const auto& wipes = load(next, 5).prefix.wipes;
  EXPECT_EQ(wipes[static_cast<std::size_t>(PrefixWipe::restarted)], 1u);
}

/// A request that empties a cache says so when the replica has answered it well, and of that replica alone.
TEST_F(PoolPrefix, AReplicaThatIsFlushedThroughThePoolHoldsNothing) {
  for (const auto cause : {EndCause::answered, EndCause::client_erred, EndCause::replica_failed}) {
    specs.clear();
    begin(2);
    const ReplicaIndex home = serve(1, 2000, 1);
    RequestFacts flush = prompt_of(0);
    flush.empties_cache = true;
    const std::vector<Serial> only{pool->figures().key(1 - home).serial};
    Lease lease = admitted(pool->offer({shared(flush), only}, at(2)));
    ASSERT_EQ(lease.replica(), home);
    EXPECT_EQ(load(home, 2).prefix_held, 2000u) << "It is not empty yet.";
    lease.end(LeaseEnd(cause), at(3));
    const bool emptied = cause == EndCause::answered;
    EXPECT_EQ(load(home, 3).prefix_held, emptied ? 0u : 2000u);
    EXPECT_EQ(load(home, 3).prefix.wipes[static_cast<std::size_t>(PrefixWipe::flushed)], emptied ? 1u : 0u);
  }
}

TEST_F(PoolPrefix, SiblingsOfOneMomentGoWhereTheFirstWent) {
  begin(4, {});
  std::vector<Lease> siblings;
  for (int i = 0; i < 8; ++i) {
    PlacementRequest placement{shared(prompt_of(4000 + 64))};
    auto prefix = *prefix_of(1, 4000);
    prefix.anchors.push_back({777u + static_cast<std::uint64_t>(i), 4064});
    placement.prefix = std::make_shared<const metrics::wire::PromptPrefix>(prefix);
    siblings.push_back(admitted(pool->offer(placement, at(1))));
  }
  Tokens computed = 0;
  for (ReplicaIndex i = 0; i < 4; ++i) computed += load(i, 1).prefill_left;
  EXPECT_LE(computed, 4000u * 13 / 10 + 8 * 64) << "The prefix is computed at most 1.3 times.";
}

/// A beginning that all prompts have is computed on each replica once: else one of them would write all answers.
TEST_F(PoolPrefix, AHotBeginningSpreadsOverAllReplicas) {
  begin(4, {});
  std::vector<std::size_t> requests(4);
  std::vector<Lease> writing;
  for (std::uint64_t i = 0; i < 400; ++i) {
    const double now = 1 + 0.1 * static_cast<double>(i);
    PlacementRequest placement{shared(prompt_of(1100))};
    auto prefix = *prefix_of(1, 1000);
    prefix.anchors.push_back({1'000'000 + i, 1100});
    placement.prefix = std::make_shared<const metrics::wire::PromptPrefix>(prefix);
    writing.push_back(admitted(pool->offer(placement, at(now))));
    ++requests[writing.back().replica()];
    writing.back().first_token(at(now));
    if (writing.size() > 20) writing.erase(writing.begin());
  }
  for (const std::size_t of_one : requests) EXPECT_GT(of_one, 60u);
}

/// A prompt that was refused was not computed, nor was one of which the client or the replica left before its end.
TEST_F(PoolPrefix, APromptWithoutATokenIsNotHeld) {
  for (const EndCause cause :
       {EndCause::replica_failed, EndCause::client_erred, EndCause::client_left, EndCause::unsent}) {
    specs.clear();
    begin(1);
    serve(1, 2000, 1, 0);
    Lease lease = admitted(offer(2, 3000, 2));
    EXPECT_EQ(load(0, 2).prefix_held, 5000u) << "Siblings see it at once.";
    lease.end(LeaseEnd(cause), at(2));
    EXPECT_EQ(load(0, 2).prefix_held, 2000u) << static_cast<int>(cause);
    Lease longer = admitted(offer(1, 2500, 3));
    longer.end(LeaseEnd(cause), at(3));
    EXPECT_EQ(load(0, 3).prefix_held, 2000u) << "Its beginning was there before.";
  }
}

/// Where no token tells of the prompt, a client that leaves at once leaves nothing, and one that leaves late leaves what
/// was computed meanwhile.
TEST_F(PoolPrefix, AnAnswerWithoutAStreamThatIsLeftAtOnceWasNotComputed) {
  for (const auto& [lasted, held] : {std::pair(0.5, 0u), std::pair(6.0, 3000u)}) {
    specs.clear();
    begin(1);
    PlacementRequest placement{shared(not_streamed(prompt_of(3000)))};
    placement.prefix = prefix_of(2, 3000);
    admitted(pool->offer(placement, at(1))).end(LeaseEnd(EndCause::client_left), at(1 + lasted));
    EXPECT_EQ(load(0, 8).prefix_held, held) << lasted;
  }
  // At 10,000 tokens a second 3000 take 0.3 s.
  specs.clear();
  begin(1);
  double now = 1;
  for (std::uint64_t i = 0; i < 40; ++i) {
    Lease lease = admitted(offer(100 + i, 1000, now));
    lease.first_token(at(now += 0.1));
    LeaseEnd end(EndCause::answered);
    end.prompt_tokens = 1000;
    lease.end(end, at(now += 0.01));
  }
  const Tokens before = load(0, now).prefix_held;
  for (const auto& [conversation, lasted, left] : {std::tuple(1u, 0.2, 0u), std::tuple(2u, 0.4, 3000u)}) {
    PlacementRequest placement{shared(not_streamed(prompt_of(3000)))};
    placement.prefix = prefix_of(conversation, 3000);
    Lease lease = admitted(pool->offer(placement, at(now)));
    lease.end(LeaseEnd(EndCause::client_left), at(now += lasted));
    EXPECT_EQ(load(0, now).prefix_held, before + left) << lasted;
  }
}

/// Three prompts that are sent and left at once, and then sent again, find nothing: that says nothing of the cache.
TEST_F(PoolPrefix, AClientThatLeavesAtOnceWipesNothing) {
  for (const bool stream : {true, false}) {
    specs.clear();
    begin(1);
    serve(1, 2000, 1, 0);
    serve(1, 2000, 2, 1984);
    for (std::uint64_t other = 2; other < 5; ++other) {
      const RequestFacts facts = prompt_of(2000);
      PlacementRequest placement{shared(stream ? facts : not_streamed(facts))};
      placement.prefix = prefix_of(other, 2000);
      admitted(pool->offer(placement, at(3))).end(LeaseEnd(EndCause::client_left), at(3.1));
    }
    for (std::uint64_t other = 2; other < 5; ++other) serve(other, 2000, 4, 0);
    EXPECT_EQ(load(0, 5).prefix.wipes[static_cast<std::size_t>(PrefixWipe::missed)], 0u) << stream;
    EXPECT_EQ(load(0, 5).prefix_held, 8000u) << stream;
  }
}

/// A prompt that was sent twice, and left both times, is not there either, in whatever order its clients leave.
TEST_F(PoolPrefix, ClientsThatLeaveTogetherWipeNothing) {
  for (const bool first_leaves_first : {true, false}) {
    specs.clear();
    begin(1);
    serve(1, 2000, 1, 0);
    serve(1, 2000, 2, 1984);
    for (std::uint64_t other = 2; other < 5; ++other) {
      Lease one = admitted(offer(other, 2000, 3)), two = admitted(offer(other, 2000, 3));
      (first_leaves_first ? one : two).end(LeaseEnd(EndCause::client_left), at(3.1));
      (first_leaves_first ? two : one).end(LeaseEnd(EndCause::client_left), at(3.1));
    }
    EXPECT_EQ(load(0, 4).prefix_held, 2000u) << first_leaves_first;
    for (std::uint64_t other = 2; other < 5; ++other) serve(other, 2000, 4, 0);
    EXPECT_EQ(load(0, 5).prefix.wipes[static_cast<std::size_t>(PrefixWipe::missed)], 0u) << first_leaves_first;
  }
}

/// SGLang, for one, leaves out a count of 0. Hits have shown that the replica counts.
TEST_F(PoolPrefix, ACountThatIsLeftOutIsAMissWhereHitsAreReported) {
  begin(1);
  for (int i = 0; i < 8; ++i) serve(1, 2000, i);
  EXPECT_EQ(load(0, 9).prefix.judged, 0u) << "It may be that the replica never counts.";
  serve(1, 2000, 10, 1984);
  for (int i = 0; i < 3; ++i) serve(1, 2000, 11 + i);
  EXPECT_EQ(load(0, 14).prefix.wipes[static_cast<std::size_t>(PrefixWipe::missed)], 1u);
  for (int i = 0; i < 8; ++i) serve(1, 2000, 15 + i);
  EXPECT_EQ(load(0, 24).prefix.wipes[static_cast<std::size_t>(PrefixWipe::missed)], 1u)
      << "An engine that does not count may have taken its place.";
}

TEST_F(PoolPrefix, ACountThatIsLeftOutIsUnknownWhereZerosAreReported) {
  begin(1);
  serve(1, 2000, 1, 0);
  serve(1, 2000, 2, 1984);
  for (int i = 0; i < 8; ++i) serve(1, 2000, 3 + i);
  EXPECT_EQ(load(0, 12).prefix.wipes[static_cast<std::size_t>(PrefixWipe::missed)], 0u);
}

/// A cache that was flushed is found empty once. Where nothing is ever found, it is switched off.
TEST_F(PoolPrefix, ACacheThatIsSwitchedOffIsNotBelieved) {
  begin(1);
  for (int i = 0; i < 60; ++i) serve(1, 2000, i, 0);
  EXPECT_LT(load(0, 61).prefix_believed, 0.2);
  EXPECT_LE(load(0, 61).prefix.wipes[static_cast<std::size_t>(PrefixWipe::missed)], 8u);
}

/// A request that a replica refuses has computed nothing there, and neither has one that is gone at once.
TEST_F(PoolPrefix, ARequestWithoutATokenLeavesNothingThatWasNotThere) {
  for (const EndCause cause :
       {EndCause::client_erred, EndCause::replica_failed, EndCause::unsent, EndCause::client_left}) {
    specs.clear();
    begin(1);
    const ReplicaIndex home = serve(1, 2000, 1);
    const Tokens held = load(home, 1).prefix_held;
    admitted(offer(2, 5000, 2)).end(LeaseEnd(cause), at(2));
    EXPECT_EQ(load(home, 2).prefix_held, held);
    EXPECT_EQ(admitted(offer(2, 5000, 3)).prefix_tokens()->predicted, 0u);
    // The earlier prompt stays.
    admitted(offer(1, 2000, 4)).end(LeaseEnd(cause), at(4));
    EXPECT_EQ(admitted(offer(1, 2000, 5)).prefix_tokens()->predicted, 1999u);
  }
}

/// Requests that are refused cannot make the pool believe that a replica has lost its cache.
TEST_F(PoolPrefix, AClientThatIsRefusedWipesNothing) {
  begin(1);
  for (double now = 1; now < 5; ++now) serve(1, 4000, now, now == 1 ? 0 : 3984);
  for (std::uint64_t i = 10; i < 16; ++i) {
    admitted(offer(i, 3000, 6)).end(LeaseEnd(EndCause::client_erred), at(6));
    serve(i, 3000, 7, 0);
  }
  EXPECT_EQ(load(0, 8).prefix.wipes[static_cast<std::size_t>(PrefixWipe::missed)], 0u);
  EXPECT_GE(admitted(offer(1, 4000, 9)).prefix_tokens()->predicted, 3900u);
}

TEST_F(PoolPrefix, APoolThatDidNotLookForAWhileKnowsNothing) {
  begin(1);
  serve(1, 2000, 1);
  pool->set_prefix_aware(false);
  Lease across = admitted(offer(3, 500, 2));
  pool->set_prefix_aware(true);
  EXPECT_EQ(admitted(offer(1, 2000, 3)).prefix_tokens()->predicted, 0u) << "Others may have pushed it out meanwhile.";
  pool->set_prefix_aware(true);
  serve(1, 2000, 4);
  pool->set_prefix_aware(true);
  Lease told = admitted(offer(1, 2000, 5));
  EXPECT_EQ(told.prefix_tokens()->predicted, 1999u);
  pool->set_prefix_aware(false);
  LeaseEnd end(EndCause::answered);
  end.prompt_tokens = 2000;
  end.cached_tokens = 0;
  told.end(end, at(6));
  EXPECT_EQ(load(0, 7).prefill_left, 500u);
}

TEST_F(PoolPrefix, SumsAreKept) {
  begin(1);
  serve(1, 2000, 1, 0);
  serve(1, 2000, 2, 1984);
  const PrefixSums sums = load(0, 3).prefix;
  EXPECT_EQ(sums.looked_up, 4000u);
  EXPECT_EQ(sums.predicted, 1999u);
  EXPECT_EQ(sums.best, 1999u);
  EXPECT_EQ(sums.reported, 1984u);
  EXPECT_EQ(sums.over, 15u);
  EXPECT_EQ(sums.under, 0u);
  EXPECT_EQ(sums.judged, 4000u);
}

TEST_F(PoolPrefix, OtherPoliciesDoNotLook) {
  begin(2);
  pool->set_policy(config::Policy::round_robin, 0.05);
  serve(1, 2000, 1);
  EXPECT_EQ(load(0, 2).prefix.looked_up + load(1, 2).prefix.looked_up, 0u);
  pool->set_policy(config::Policy::least_queued_tokens, 0.05);
  serve(1, 2000, 3);
  EXPECT_EQ(load(0, 4).prefix.looked_up + load(1, 4).prefix.looked_up, 2000u);
  pool->set_policy(config::Policy::round_robin, 0.05);
  EXPECT_EQ(load(0, 5).prefix_held + load(1, 5).prefix_held, 0u) << "Who knows what they hold when it is asked again?";
}

}  // namespace
}  // namespace weir::balancer
