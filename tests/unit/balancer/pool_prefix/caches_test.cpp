// A pool's beliefs about its replicas' caches: what fills them, what empties them, and which reports count.
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/balancer/pool_prefix/pool_prefix.hpp"

namespace weir::balancer {
namespace {

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

/// Where no token tells of the prompt, a client that leaves at once leaves nothing, and one that leaves late leaves
/// what was computed meanwhile.
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
  for (const auto& [conversation, tokens, lasted, left] :
       {std::tuple(1u, 3000u, 0.2, 0u), std::tuple(2u, 3000u, 0.4, 3000u), std::tuple(3u, 100'000u, 6.0, 3000u)}) {
    PlacementRequest placement{shared(not_streamed(prompt_of(tokens)))};
    placement.prefix = prefix_of(conversation, tokens);
    Lease lease = admitted(pool->offer(placement, at(now)));
    lease.end(LeaseEnd(EndCause::client_left), at(now += lasted));
    EXPECT_EQ(load(0, now).prefix_held, before + left) << tokens << " tokens, left after " << lasted << " s";
  }
  // A token would have told of a stream, however long it was there beside the others.
  PlacementRequest silent{shared(not_streamed(prompt_of(1000)))}, stream{shared(prompt_of(2000))};
  stream.prefix = prefix_of(4, 2000);
  Lease streamed = admitted(pool->offer(stream, at(now))), other = admitted(pool->offer(silent, at(now)));
  streamed.end(LeaseEnd(EndCause::client_left), at(now += 5));
  EXPECT_EQ(load(0, now).prefix_held, before + 3000);
  other.end(LeaseEnd(EndCause::client_left), at(now));
}

/// A replica that failed may have lost what it computed, and one that refused a prompt has computed nothing of it.
TEST_F(PoolPrefix, AnAnswerWithoutAStreamLeavesItsPromptOnlyIfItsClientLeft) {
  for (const auto& [cause, held] :
       {std::pair(EndCause::client_left, 3000u), std::pair(EndCause::replica_failed, 0u),
        std::pair(EndCause::client_erred, 0u), std::pair(EndCause::unsent, 0u)}) {
    specs.clear();
    begin(1);
    PlacementRequest placement{shared(not_streamed(prompt_of(3000)))};
    placement.prefix = prefix_of(2, 3000);
    admitted(pool->offer(placement, at(1))).end(LeaseEnd(cause), at(9));
    EXPECT_EQ(load(0, 10).prefix_held, held) << static_cast<int>(cause);
  }
}

/// Three prompts that are sent and left at once, and then sent again, find nothing: that says nothing of the cache.
TEST_F(PoolPrefix, AClientThatLeavesAtOnceWipesNothing) {
  for (const bool stream : {true, false}) {
    begin_with_reports();
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
    begin_with_reports();
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

}  // namespace
}  // namespace weir::balancer
