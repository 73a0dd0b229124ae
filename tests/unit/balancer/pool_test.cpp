#include "balancer/pool.hpp"

#include <functional>
#include <set>

#include "requests.hpp"

namespace weir::balancer {
namespace {

Refused refused(Offered offered) {
  if (const auto* refused = std::get_if<Refused>(&offered)) return *refused;
  ADD_FAILURE() << "admitted";
  return {};
}

std::uint64_t fallback(const ReplicaLoad& load, std::string_view reason) {
  for (const auto& [name, count] : load.fallbacks) {
    if (name == reason) return count;
  }
  ADD_FAILURE() << "no such fallback: " << reason;
  return 0;
}

ReplicaSpec with_context(ReplicaSpec spec, Tokens tokens) {
  spec.max_context = tokens;
  return spec;
}
ReplicaSpec refusing(ReplicaSpec spec, Tokens context) {
  spec.max_context = context;
  spec.max_context_refuses = true;
  return spec;
}
ReplicaSpec with_kv(ReplicaSpec spec, Tokens tokens) {
  spec.kv_tokens = tokens;
  return spec;
}
ReplicaSpec with_places(ReplicaSpec spec, std::uint32_t requests) {
  spec.max_in_flight = requests;
  return spec;
}

TEST(Pool, TellsWhetherAnotherReplicaIsLeft) {
  auto a = replica("a"), b = replica("b");
  const auto pool = pool_of({a, b});
  const auto of_a = pool->figures().key(0).serial, of_b = pool->figures().key(1).serial;
  const Serial only_a[] = {of_a}, only_b[] = {of_b};
  EXPECT_TRUE(pool->another_is_left({}, of_a));
  EXPECT_TRUE(pool->another_is_left(only_a, of_a));
  EXPECT_FALSE(pool->another_is_left(only_b, of_a));
  pool->health().report(pool->figures().key(1), Sign::refused, at(1));
  EXPECT_FALSE(pool->another_is_left({}, of_a)) << "it refuses connections";
  pool->health().report(pool->figures().key(1), Sign::probe_passed, at(2));
  EXPECT_TRUE(pool->another_is_left({}, of_a));
  b.draining = true;
  const ReplicaSpec drains[] = {a, b};
  pool->set_replicas(drains, at(3));
  EXPECT_FALSE(pool->another_is_left({}, of_a)) << "it drains";
  Lease lease = admitted(place(*pool, prompt_of(10), at(3)));
  auto moved = a;
  moved.url = "elsewhere";
  const ReplicaSpec replaced[] = {moved};
  const auto place = pool->set_replicas(replaced, at(4)).front();
  EXPECT_TRUE(pool->another_is_left(only_a, of_a)) << "what came in its place is another replica";
  EXPECT_FALSE(pool->another_is_left({}, pool->figures().key(place).serial))
      << "the first is gone, though a request is on it";
}

TEST(Pool, ReplicasKeepTheirIndexByNameAndUrl) {
  auto pool = Pool::make(config::Policy::round_robin, 1);
  auto moved = replica("a");
  moved.url = "elsewhere";
  const ReplicaSpec ab[] = {replica("a"), replica("b")}, cb[] = {replica("c"), replica("b")}, other[] = {moved};
  EXPECT_EQ(pool->set_replicas(ab, at(0)), (std::vector<ReplicaIndex>{0, 1}));
  EXPECT_EQ(pool->set_replicas(cb, at(1)), (std::vector<ReplicaIndex>{2, 1}));
  EXPECT_EQ(pool->figures().load(2, at(1)).name, "c");
  EXPECT_EQ(pool->figures().load(0, at(1)).name, "") << "nothing was under way on a: its place is free";
  EXPECT_EQ(pool->set_replicas(ab, at(2)), (std::vector<ReplicaIndex>{0, 1}));
  EXPECT_EQ(pool->set_replicas(other, at(3)), (std::vector<ReplicaIndex>{2})) << "another url is another replica";
}

TEST(Pool, AReplicaThatIsGoneFreesItsPlaceWithItsLastLease) {
  auto pool = pool_of({replica("a")}, config::Policy::round_robin);
  auto lease = admitted(place(*pool, prompt_of(10), at(1)));
  const auto gone = pool->figures().key(0);
  const ReplicaSpec b[] = {replica("b")}, bc[] = {replica("b"), replica("c")};
  EXPECT_EQ(pool->set_replicas(b, at(2)), (std::vector<ReplicaIndex>{1}));
  EXPECT_EQ(pool->figures().load(0, at(2)).in_flight, 1u);
  EXPECT_EQ(pool->set_replicas(b, at(2)), (std::vector<ReplicaIndex>{1}));
  lease.end(answer(), at(3));
  EXPECT_EQ(pool->figures().in_flight(), 0u);
  EXPECT_EQ(pool->figures().load(0, at(3)).name, "");
  EXPECT_EQ(pool->set_replicas(bc, at(4)), (std::vector<ReplicaIndex>{1, 0}));
  EXPECT_EQ(pool->figures().load(0, at(4)).name, "c");
  EXPECT_EQ(pool->figures().load(gone, at(4)).name, "") << "who still has the key of a sees nothing of c";
}

TEST(Pool, TheCauseOfAnEndSaysWhatIsLeftOfAPrompt) {
  struct Row {
    const char* what;
    EndCause cause;
    Tokens at_once, left_after_first_token;
  };
  const Row rows[] = {{"answered", EndCause::answered, 0, 0},
                      {"replica_failed", EndCause::replica_failed, 10, 0},
                      {"client_left", EndCause::client_left, 0, 0},
                      {"client_erred", EndCause::client_erred, 0, 0},
                      {"unsent", EndCause::unsent, 0, 0}};
  for (const Row& row : rows) {
    auto pool = pool_of({replica("a")});
    admitted(place(*pool, prompt_of(10), at(1))).end(LeaseEnd(row.cause), at(2));
    EXPECT_EQ(pool->figures().load(0, at(2.999)).prefill_left, row.at_once) << row.what;
    EXPECT_EQ(pool->figures().load(0, at(3)).prefill_left, 0u) << row.what << ", a second later";
    Lease begun = admitted(place(*pool, prompt_of(10), at(4)));
    begun.first_token(at(5));
    begun.end(LeaseEnd(row.cause), at(6));
    EXPECT_EQ(pool->figures().load(0, at(6)).prefill_left, row.left_after_first_token) << row.what;
    expect_idle(*pool, 1, at(6));
  }
}

TEST(Pool, WhatIsNoInferenceIsChargedNothingAndTeachesNothing) {
  auto pool = pool_of({replica("a")}, config::Policy::round_robin);
  RequestFacts get = unknown_request();
  get.stream = false;
  get.gives_work = false;
  for (int i = 0; i < 100; ++i) {
    Lease lease = admitted(place(*pool, get, at(1)));
    EXPECT_EQ(lease.prompt_estimate(), 0u);
    EXPECT_EQ(pool->figures().load(0, at(1)).prefill_left + pool->figures().load(0, at(1)).decode_left, 0u);
    lease.end(answer({}, 500), at(2));
  }
  EXPECT_EQ(fallback(pool->figures().load(0, at(2)), "unknown_prompt"), 0u);
  RequestFacts unknown = unknown_request();
  Lease lease = admitted(place(*pool, unknown, at(3)));
  EXPECT_EQ(lease.prompt_estimate(), 2048u) << "what an unknown prompt is charged is the mean of real ones";
  EXPECT_EQ(pool->figures().load(0, at(3)).decode_left, 0u);
}

TEST(Pool, ARemovedReplicaTakesNoMoreRequestsAndFinishesItsOwn) {
  auto pool = pool_of({replica("a"), replica("b")}, config::Policy::round_robin);
  Lease on_a = admitted(place(*pool, prompt_of(10), at(1)));
  ASSERT_EQ(on_a.replica(), 0u);
  const ReplicaSpec only_b[] = {replica("b")};
  pool->set_replicas(only_b, at(2));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(admitted(place(*pool, prompt_of(10), at(2))).replica(), 1u);
  EXPECT_EQ(pool->figures().load(0, at(2)).in_flight, 1u);
  on_a.first_token(at(3));
  on_a.end(answer(10, 5), at(4));
  expect_idle(*pool, 2, at(5));
}

TEST(Pool, AllBusyIsRefusedWithTheTimeItTakes) {
  auto pool = pool_of({with_places(replica("a"), 1), with_places(replica("b"), 1)});
  Lease first = admitted(place(*pool, prompt_of(600), at(1)));
  Lease second = admitted(place(*pool, prompt_of(3000), at(1)));
  EXPECT_EQ(refused(place(*pool, prompt_of(10), at(1))).reason, Refused::Reason::busy);
  EXPECT_EQ(refused(place(*pool, prompt_of(10), at(1))).retry_after, 5u);  // Nothing was finished.
}

TEST(Pool, APromptIsRefusedOnlyWhereTheOperatorSaysSoAndNoErrorOfTheEstimateExplainsIt) {
  auto pool = pool_of({refusing(replica("a"), 1000), refusing(replica("b"), 2000)});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(admitted(place(*pool, prompt_of(1601), at(1))).replica(), 1u);
  EXPECT_TRUE(admitted(place(*pool, prompt_of(3200, 100'000), at(1)))) << "max_tokens refuses nothing";
  EXPECT_EQ(refused(place(*pool, prompt_of(3201, 1), at(1))).reason, Refused::Reason::too_long);
  auto beside = pool_of({refusing(replica("a"), 1000), replica("b")});
  EXPECT_EQ(admitted(place(*beside, prompt_of(1'000'000), at(1))).replica(), 1u);
}

TEST(Pool, APromptIsTooLongForEachOfItsChoicesAndAListOnlyInTheMean) {
  struct Asked {
    Tokens tokens;
    std::uint32_t n, prompts;
    bool taken;
  };
  for (const auto& [tokens, n, prompts, taken] :
       {Asked{16'000, 10, 10, true}, Asked{16'010, 10, 10, false}, Asked{1600, 4, 1, true}, Asked{1601, 4, 1, false},
        Asked{3201, 8, 2, true}, Asked{3202, 8, 2, false}}) {
    auto pool = pool_of({refusing(replica("a"), 1000)});
    RequestFacts facts = prompt_of(tokens);
    facts.n = n;
    facts.prompts = prompts;
    const auto offered = place(*pool, facts, at(1));
    const auto* refused = std::get_if<Refused>(&offered);
    EXPECT_EQ(refused == nullptr, taken) << tokens << " in " << prompts;
    if (refused) EXPECT_EQ(refused->reason, Refused::Reason::too_long);
  }
}

TEST(Pool, AnUnknownPromptIsChargedTheMeanAndCountedAndNeverTooLong) {
  auto pool = pool_of({with_context(replica("a"), 1000)});
  Lease lease = admitted(place(*pool, unknown_request(), at(1)));
  EXPECT_EQ(lease.prompt_estimate(), 2048u);
  EXPECT_EQ(fallback(pool->figures().load(0, at(1)), "unknown_prompt"), 1u);
  Lease known = admitted(place(*pool, prompt_of(500), at(1)));
  known.end(answer(500), at(2));
  EXPECT_EQ(admitted(place(*pool, unknown_request(), at(2))).prompt_estimate(), 500u);
  EXPECT_EQ(fallback(pool->figures().load(0, at(2)), "unknown_prompt"), 2u);
}

TEST(Pool, AFullCacheIsChosenOnlyIfAllAreFull) {
  auto pool = pool_of({with_kv(replica("a"), 1000), with_kv(replica("b"), 1000)});
  const Serial b[] = {2};
  Lease on_a = admitted(place(*pool, prompt_of(900), at(1), b));
  on_a.first_token(at(1));  // There is no queue, but the cache is full.
  Lease on_b = admitted(place(*pool, prompt_of(800), at(1)));
  EXPECT_EQ(on_b.replica(), 1u);
  Lease fits_b = admitted(place(*pool, prompt_of(150), at(1)));
  EXPECT_EQ(fits_b.replica(), 1u);  // b is chosen although a has nothing queued.
  EXPECT_EQ(fallback(pool->figures().load(0, at(1)), "kv_full") + fallback(pool->figures().load(1, at(1)), "kv_full"),
            0u);

  Lease fits_none = admitted(place(*pool, prompt_of(150), at(1)));
  EXPECT_EQ(fits_none.replica(), 0u);
  EXPECT_EQ(fallback(pool->figures().load(0, at(1)), "kv_full"), 1u);
}

TEST(Pool, OutputStillToComeWeighsALittle) {
  auto pool = pool_of({replica("a"), replica("b")});
  const Serial not_a[] = {2}, not_b[] = {1};
  Lease on_a = admitted(place(*pool, prompt_of(10, 200), at(1), not_a));
  on_a.first_token(at(1));
  EXPECT_EQ(admitted(place(*pool, prompt_of(1), at(1))).replica(), 1u);
  Lease on_b = admitted(place(*pool, prompt_of(1000), at(1), not_b));
  EXPECT_EQ(admitted(place(*pool, prompt_of(1), at(1))).replica(), 0u);
}

TEST(Pool, TheQueueOfARemovedReplicaIsNotWaitedFor) {
  auto pool = pool_of({with_places(replica("a"), 1), with_places(replica("b"), 1)});
  const Serial not_a[] = {2};
  Lease on_a = admitted(place(*pool, prompt_of(100'000), at(1), not_a));
  Lease on_b = admitted(place(*pool, prompt_of(300), at(1)));
  const ReplicaSpec left[] = {with_places(replica("b"), 1)};
  pool->set_replicas(left, at(1));
  on_b.first_token(at(2));
  EXPECT_EQ(refused(place(*pool, prompt_of(10), at(2))).retry_after, 5u) << "what the last one left has is nothing";
}

TEST(Pool, WhatAnEngineToldStandsInForWhatTheSettingsLeaveOpen) {
  auto pool = pool_of({replica("a"), with_kv(replica("b"), 5000)});
  pool->health().engine_told(pool->figures().key(0), {.kv_tokens = 100, .max_context = 1000});
  pool->health().engine_told(pool->figures().key(1), {.kv_tokens = 100, .max_context = {}});
  const Serial not_a[] = {1}, not_b[] = {2};
  Lease on_a = admitted(place(*pool, prompt_of(50), at(1), not_b));
  Lease on_b = admitted(place(*pool, prompt_of(500), at(1), not_a));
  EXPECT_EQ(on_a.replica(), 0u);
  // The settings' size of b holds. a has fewer tokens queued, but its cache would overflow.
  Lease third = admitted(place(*pool, prompt_of(60), at(1)));
  EXPECT_EQ(third.replica(), 1u);
  EXPECT_EQ(fallback(pool->figures().load(1, at(1)), "kv_full"), 0u);
}

TEST(Pool, AContextThatAnEngineToldChoosesAndRefusesNobody) {
  auto pool = pool_of({replica("a"), with_context(replica("b"), 2000)}, config::Policy::round_robin);
  pool->health().engine_told(pool->figures().key(0), {.kv_tokens = {}, .max_context = 1000});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(admitted(place(*pool, prompt_of(1500), at(1))).replica(), 1u);
  EXPECT_EQ(admitted(place(*pool, prompt_of(2500), at(1))).replica(), 0u) << "b's settings refuse it, a may cut it";
}

TEST(Pool, WhatAnEngineToldOutlivesAReloadAndGoesWithTheReplica) {
  auto pool = pool_of({replica("a"), replica("b")}, config::Policy::round_robin);
  const auto key = pool->figures().key(0);
  pool->health().engine_told(key, {.kv_tokens = {}, .max_context = 1000});
  const ReplicaSpec same[] = {replica("a"), replica("b")}, without[] = {replica("b")};
  pool->set_replicas(same, at(1));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(admitted(place(*pool, prompt_of(1500), at(1))).replica(), 1u);
  pool->set_replicas(without, at(2));
  pool->set_replicas(same, at(3));
  pool->health().engine_told(key, {.kv_tokens = {}, .max_context = 1});  // It is of the replica that is gone.
  EXPECT_NE(admitted(place(*pool, prompt_of(1500), at(3))).replica(),
            admitted(place(*pool, prompt_of(1500), at(3))).replica());
}

TEST(Pool, TimeMayArriveOutOfOrder) {
  auto pool = pool_of({replica("a")});
  Lease lease = admitted(place(*pool, prompt_of(10), at(5)));
  lease.first_token(at(3));
  lease.end(answer(10, 1), at(4));
  EXPECT_EQ(pool->figures().load(0, at(1)).busy_seconds, 0.0);
  expect_idle(*pool, 1, at(0));
}

}  // namespace
}  // namespace weir::balancer
