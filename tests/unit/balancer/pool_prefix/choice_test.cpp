// Which replica gets a prompt whose beginning some replicas have computed before.
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/balancer/pool_prefix/pool_prefix.hpp"

namespace weir::balancer {
namespace {

/// Where nothing is shared, prefixes change no choice: two pools make the same decisions.
TEST(PoolWithNothingToReuse, ChoosesAsOneThatKnowsOfNoPrefixes) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<ReplicaSpec> specs{replica("a"), replica("b", 2), replica("c"), replica("d", 0.5)};
    specs[2].max_queued_tokens = 6000;
    const auto plain = pool_of(specs, config::Policy::least_queued_tokens, seed);
    const auto aware = pool_of(specs, config::Policy::least_queued_tokens, seed);
    aware->set_prefix_aware(true);
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

/// An operator who sees an idle replica beside a busy one is told why.
TEST_F(PoolPrefix, AnIdleReplicaSaysWhatTheLatestRequestWasExpectedToCostThere) {
  begin(2);
  const ReplicaIndex home = serve(1, 2000, 1);
  EXPECT_FALSE(load(1 - home, 1).passed_over) << "both are idle";
  Lease first = admitted(offer(1, 2064, 2)), second = admitted(offer(1, 2128, 2));
  ASSERT_EQ(second.replica(), home);
  const ReplicaLoad idle = load(1 - home, 2);
  ASSERT_TRUE(idle.passed_over);
  EXPECT_EQ(idle.passed_over_for, specs[home].name);
  EXPECT_GT(idle.passed_over->waste, 0) << "most of its prompt is at home";
  EXPECT_GT(idle.passed_over->first_token, idle.passed_over->first_token_there);
  EXPECT_FALSE(load(home, 2).passed_over);
  EXPECT_FALSE(load(1 - home, 13).passed_over) << "long ago";
  const std::vector<Serial> not_home{pool->figures().key(home).serial};
  Lease own = admitted(offer(7, 500, 3, not_home));
  own.end(LeaseEnd(EndCause::client_left), at(3));
  EXPECT_FALSE(load(1 - home, 3).passed_over) << "the latest request went there";
}

/// A copy that is used stays, so that the one that has sunk is left to go.
TEST_F(PoolPrefix, OfTwoCopiesInFullCachesTheOneThatWasUsedLatelyIsUsed) {
  PrefixIndex prefixes;
  for (const ReplicaIndex replica : {0u, 1u}) prefixes.place({replica, replica + 1u}, 10'000);
  const auto text = prefix_of(1, 2'000);
  const auto fill = [&](ReplicaIndex replica, std::uint64_t first, std::uint64_t texts) {
    for (std::uint64_t i = 0; i < texts; ++i) {
      const auto other = prefix_of(first + i, 1'000);
      prefixes.computed(*other, prefixes.sent(*other, replica, 1'000), replica);
    }
  };
  fill(0, 10, 12);
  fill(1, 10, 12);
  for (const ReplicaIndex replica : {0u, 1u})
    prefixes.computed(*text, prefixes.sent(*text, replica, 2'000), replica);
  fill(1, 30, 6);
  prefixes.look(*text, 2'000);
  const auto room = [&](ReplicaIndex replica) {
    return prefixes.waste(0, replica, 1'999, 1'999) / (1'999 * 8 * prefixes.of(replica).wanted_again());
  };
  EXPECT_LT(room(0), 0.35) << "used just now";
  EXPECT_GT(room(1), 0.6) << "used long ago";
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

/// The price falls with each request that has reused a beginning, so that one that many will have is computed anew.
TEST_F(PoolPrefix, WorkThatIsDoneTwiceCostsLessTheMoreRequestsReuseIt) {
  for (const auto& [reused, stays] : {std::pair(0, true), std::pair(2, true), std::pair(12, false)}) {
    specs.clear();
    begin(2);
    const ReplicaIndex home = serve(1, 2000, 1);
    const std::vector<Serial> only_home{pool->figures().key(1 - home).serial};
    for (int i = 0; i < reused; ++i) {
      Lease lease = admitted(offer(1, 2000, 1, only_home));
      lease.first_token(at(1));
      lease.end(LeaseEnd(EndCause::answered), at(1));
    }
    Lease busy = admitted(offer(50, 1000, 2, only_home));
    EXPECT_EQ(admitted(offer(1, 2064, 2)).replica() == home, stays) << reused;
  }
}

/// Two replicas of the same speed, of which one holds four tenths of each prompt and reports nothing of it.
TEST_F(PoolPrefix, AReplicaIsNotTakenForAFastOneForWhatItDoesNotCompute) {
  begin(2);
  const std::vector<Serial> all{pool->figures().key(0).serial, pool->figures().key(1).serial};
  double now = 1;
  for (std::uint64_t i = 0; i < 40; ++i) {
    for (const ReplicaIndex to : {0u, 1u}) {
      PlacementRequest placement{shared(prompt_of(1000)), {all[1 - to]}};
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
  EXPECT_NEAR(load(0, now).time.token, 0.001, 0.0001);
  EXPECT_NEAR(load(1, now).time.token, 0.001, 0.0001);
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

TEST_F(PoolPrefix, SiblingsOfOneMomentGoWhereTheFirstWent) {
  begin(4);
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
  begin(4);
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

/// Texts that many requests have, of which the caches hold all together and no cache holds all. If each of them was
/// copied to each replica, like the one above, they would push each other out for ever.
TEST_F(PoolPrefix, HotBeginningsThatDoNotFitTwiceAreNotCopiedForEver) {
  constexpr std::uint64_t texts = 14, text_tokens = 1'000;
  for (char name = 'a'; name < 'e'; ++name) {
    specs.push_back(replica(std::string(1, name)));
    specs.back().kv_tokens = 5'000;
  }
  begin(0);
  policy::Random random(3);
  std::vector<Lease> writing;
  int computed = 0;
  for (std::uint64_t i = 0; i < 3'000; ++i) {
    const double now = 1 + 0.2 * static_cast<double>(i);
    PlacementRequest placement{shared(prompt_of(text_tokens + 20))};
    auto prefix = *prefix_of(1 + random() % texts, text_tokens);
    prefix.anchors.push_back({1'000'000 + i, text_tokens + 20});
    placement.prefix = std::make_shared<const metrics::wire::PromptPrefix>(prefix);
    writing.push_back(admitted(pool->offer(placement, at(now))));
    const Tokens cached = writing.back().prefix_tokens()->predicted;
    if (i >= 2'000 && cached < text_tokens / 2) ++computed;
    writing.back().first_token(at(now + 0.02 + 1e-4 * static_cast<double>(text_tokens + 20 - cached)));
    if (writing.size() > 3) {
      writing.front().end(answer(text_tokens + 20, 20), at(now + 0.15));
      writing.erase(writing.begin());
    }
  }
  EXPECT_LT(computed, 50) << "of a thousand";
}

TEST_F(PoolPrefix, OtherPoliciesDoNotLook) {
  begin(2);
  pool->set_policy(config::Policy::round_robin);
  serve(1, 2000, 1);
  EXPECT_EQ(load(0, 2).prefix.looked_up + load(1, 2).prefix.looked_up, 0u);
  pool->set_policy(config::Policy::least_queued_tokens);
  serve(1, 2000, 3);
  EXPECT_EQ(load(0, 4).prefix.looked_up + load(1, 4).prefix.looked_up, 2000u);
  pool->set_policy(config::Policy::round_robin);
  EXPECT_EQ(load(0, 5).prefix_held + load(1, 5).prefix_held, 0u) << "Who knows what they hold when it is asked again?";
}

}  // namespace
}  // namespace weir::balancer
