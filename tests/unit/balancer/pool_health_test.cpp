// A pool and the health of its replicas.
#include <array>
#include <random>
#include <set>

#include "balancer/pool.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

using enum ReplicaState;

class PoolHealth : public PoolWithKeys {
 protected:
  void report(std::size_t index, Sign sign, int times, double now) {
    for (int i = 0; i < times; ++i) pool->health().report(keys[index], sign, at(now));
  }
  /// True if a lease on the replica says that another one is to be asked about its refusals.
  bool doubted(std::size_t index, double now) {
    auto lease = send(keys[index].index, prompt_of(10), now);
    const bool found = lease.doubted();
    lease.end(LeaseEnd(EndCause::unsent), at(now));
    return found;
  }
  std::set<ReplicaIndex> chosen(double now) {
    std::set<ReplicaIndex> found;
    for (int i = 0; i < 40; ++i) {
      auto lease = admitted(place(*pool, prompt_of(10), at(now)));
      found.insert(lease.replica());
      lease.end(LeaseEnd(EndCause::unsent), at(now));
    }
    return found;
  }
};

TEST_F(PoolHealth, SoftReasonsTakeOutNoMoreThanHalf) {
  begin(5);
  for (std::size_t i = 0; i < 5; ++i) report(i, Sign::failed, 5, 1);
  EXPECT_EQ(chosen(1), (std::set<ReplicaIndex>{2, 3, 4}));
  report(2, Sign::refused, 1, 1);
  EXPECT_EQ(chosen(1), (std::set<ReplicaIndex>{3, 4}));
}

TEST_F(PoolHealth, SoftReasonsTakeNobodyOfTheLastHalf) {
  begin(4);
  report(0, Sign::refused, 1, 1);
  report(1, Sign::probe_failed, 3, 1);
  report(2, Sign::failed, 5, 1);
  report(3, Sign::connect_timed_out, 2, 1);
  EXPECT_EQ(state(2, 1), up);
  EXPECT_EQ(state(3, 1), up);
  report(0, Sign::probe_passed, 1, 2);
  report(2, Sign::failed, 1, 2);
  EXPECT_EQ(state(2, 2), ejected) << "one of them is back";
  report(3, Sign::failed, 5, 2);
  EXPECT_EQ(state(3, 2), up);
}

TEST_F(PoolHealth, TheOnlyReplicaIsNeverEjected) {
  begin(1);
  report(0, Sign::failed, 100, 1);
  EXPECT_EQ(state(0, 1), up);
}

TEST_F(PoolHealth, WithAllOutAllAreTriedAndThatIsCounted) {
  begin(2);
  report(0, Sign::probe_failed, 3, 1);
  report(1, Sign::probe_failed, 3, 1);
  EXPECT_EQ(chosen(1), (std::set<ReplicaIndex>{0, 1}));
  std::uint64_t panics = 0;
  for (ReplicaIndex i = 0; i < 2; ++i)
    for (const auto& [reason, count] : pool->figures().load(i, at(1)).fallbacks)
      panics += reason == "panic" ? count : 0;
  EXPECT_EQ(panics, 40u);
}

TEST_F(PoolHealth, AFullReplicaIsSkippedForAsLongAsItSays) {
  begin(2);
  pool->health().report(keys[0], Sign::full, at(1), std::chrono::seconds(7));
  pool->health().report(keys[1], Sign::full, at(2));
  EXPECT_EQ(chosen(2), (std::set<ReplicaIndex>{0, 1})) << "both are full";
  EXPECT_EQ(chosen(3), (std::set<ReplicaIndex>{1})) << "without a word, for a second";
  EXPECT_EQ(chosen(8), (std::set<ReplicaIndex>{0, 1}));
  EXPECT_EQ(state(0, 3), up);
}

TEST_F(PoolHealth, TheOneThatAnswers4xxWhereItsPeersDoNotIsOutOnceTheyAnswerTheSameRequestsWell) {
  begin(3);
  report(1, Sign::answered, 19, 1);
  report(2, Sign::answered, 1, 1);
  report(0, Sign::client_error, 200, 1);
  EXPECT_EQ(state(0, 1), up) << "its client may have erred each time";
  report(0, Sign::outdone, 2, 1);
  EXPECT_EQ(state(0, 1), up) << "three witnesses are needed";
  report(0, Sign::outdone, 1, 1);
  EXPECT_EQ(state(0, 1), ejected);
  EXPECT_EQ(pool->health().of(keys[0], at(1)).reason,
            "it answers 4xx where its peers answer the same requests well, so it is out for 10 s");
}

TEST_F(PoolHealth, TheOddOneOutIsToldByTheAnswersOfAll) {
  struct Case {
    const char* name;
    int wrong, well;       // What the suspect answers, in this order.
    int peers, one_wrong;  // So many answers each of two peers gives, and so many of the first one's are 4xx.
    bool odd, out;         // It is doubted, and ejected once others have answered three of these well.
  };
  for (const auto& [name, wrong, well, peers, one_wrong, odd, out] : {
           Case{"half of them", 10, 10, 20, 0, false, false},
           Case{"more than half", 11, 9, 20, 0, true, true},
           Case{"all of nineteen", 19, 0, 20, 0, false, true},
           Case{"peers with eighteen answers", 20, 0, 9, 0, false, true},
           Case{"peers with twenty", 20, 0, 10, 0, true, true},
           Case{"peers that err in a quarter", 20, 0, 20, 10, false, false},
           Case{"peers that err in less", 20, 0, 20, 9, true, true},
       }) {
    begin(3);
    report(1, Sign::client_error, one_wrong, 1);
    report(1, Sign::answered, peers - one_wrong, 1);
    report(2, Sign::answered, peers, 1);
    report(0, Sign::client_error, wrong, 1);
    report(0, Sign::answered, well, 1);
    EXPECT_EQ(state(0, 1), up) << name;
    EXPECT_EQ(doubted(0, 1), odd) << name;
    report(0, Sign::outdone, 3, 1);
    EXPECT_EQ(state(0, 1), out ? ejected : up) << name;
  }
}

TEST_F(PoolHealth, TheOddOneOutIsToldByItsLastAnswers) {
  begin(2);
  report(1, Sign::answered, 20, 1);
  report(0, Sign::answered, 100, 1);
  report(0, Sign::outdone, 3, 1);
  report(0, Sign::client_error, 10, 1);
  EXPECT_EQ(state(0, 1), up);
  report(0, Sign::client_error, 30, 1);
  EXPECT_EQ(state(0, 1), ejected);
}

TEST_F(PoolHealth, WhatWasAnsweredMoreThanAMinuteAgoSaysNothing) {
  struct Case {
    const char* name;
    double own, peers, witnesses;  // When they came.
    ReplicaState end;
  };
  for (const auto& [name, own, peers, witnesses, end] : {
           Case{"all of them lately", 10, 10, 10, ejected},
           Case{"its own answers before", 10, 71, 71, up},
           Case{"its peers' answers before", 71, 10, 71, up},
           Case{"the witnesses before", 71, 71, 10, up},
       }) {
    begin(2);
    for (const double now : {10., 71.}) {
      if (own == now) report(0, Sign::client_error, 20, now);
      if (peers == now) report(1, Sign::answered, 20, now);
      if (witnesses == now) report(0, Sign::outdone, 3, now);
    }
    EXPECT_EQ(state(0, 71), end == ejected ? starting : up) << name;
  }
}

TEST_F(PoolHealth, TheOddOneOutIsNeverOfTheLastHalfAndPeersThatAreOutDoNotCount) {
  begin(3);
  report(0, Sign::outdone, 3, 1);
  report(1, Sign::answered, 20, 1);
  report(2, Sign::refused, 1, 1);
  report(0, Sign::client_error, 20, 1);
  EXPECT_EQ(state(0, 1), up) << "two of three would be out";
  begin(4);
  report(0, Sign::outdone, 3, 1);
  report(1, Sign::answered, 20, 1);
  report(1, Sign::refused, 1, 1);
  report(2, Sign::answered, 2, 1);
  report(0, Sign::client_error, 20, 1);
  EXPECT_EQ(state(0, 1), up) << "the one with enough answers is out";
  report(2, Sign::answered, 1, 1);
  report(0, Sign::client_error, 1, 1);
  EXPECT_EQ(state(0, 1), ejected);
}

// Clients send what they like, and healthy replicas answer the same request in the same way.
TEST_F(PoolHealth, WhateverRefusedRequestsComeNoHealthyReplicaIsEjected) {
  std::mt19937 random(7);
  const auto below = [&](unsigned n) { return std::uniform_int_distribution(0U, n - 1)(random); };
  for (int history = 0; history < 200; ++history) {
    begin(2 + below(4));
    const unsigned bad_percent = below(101);
    const bool apart = below(2) == 0;  // All bad requests come to one replica, by chance or on purpose.
    double now = 0;
    for (int i = 0; i < 500; ++i) {
      now += below(4) == 0 ? 1 : 0.01;
      const bool bad = below(100) < bad_percent;
      const std::size_t at = apart && bad ? 0 : below(static_cast<unsigned>(keys.size()));
      report(at, bad ? Sign::client_error : Sign::answered, 1, now);
      if (bad && doubted(at, now)) report((at + 1) % keys.size(), Sign::client_error, 1, now);
    }
    for (std::size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(state(i, now), up) << "history " << history;
  }
}

TEST_F(PoolHealth, ConnectionsThatAReplicaDoesNotTakeInTimeAreNoReasonWhileItAnswers) {
  begin(2);
  report(0, Sign::answered, 1, 1);
  report(0, Sign::connect_timed_out, 50, 5);
  EXPECT_EQ(state(0, 5), up);
  report(0, Sign::connect_timed_out, 2, 6);
  EXPECT_EQ(state(0, 6), ejected) << "its last answer is 5 s old";

  begin(2);
  Lease streams = admitted(place(*pool, prompt_of(10), at(1), std::array{keys[1].serial}));
  streams.first_token(at(1));
  for (int second = 2; second < 30; ++second) {
    streams.tokens(1);
    pool->health().take_changes(at(second));
    report(0, Sign::connect_timed_out, 9, second + 0.5);
  }
  EXPECT_EQ(state(0, 30), up);
}

TEST_F(PoolHealth, AReplicaRestsOnlyAfterAFailureOfItsOwn) {
  for (const auto cause : {EndCause::client_erred, EndCause::client_left, EndCause::unsent, EndCause::answered,
                           EndCause::replica_failed}) {
    Grantees grantees;
    auto spec = replica("a");
    spec.max_in_flight = 1;
    pool = Pool::make(config::Policy::round_robin, 1, &grantees);
    pool->set_replicas(std::array{spec}, at(0));
    Lease first = admitted(place(*pool, prompt_of(10), at(1)));
    PlacementRequest waits{shared(prompt_of(10))};
    waits.waiter = named("w");
    ASSERT_TRUE(std::holds_alternative<Waiting>(pool->offer(waits, at(1))));
    first.end(LeaseEnd(cause), at(2));
    EXPECT_EQ(grantees.all.size(), cause == EndCause::replica_failed ? 0u : 1u) << static_cast<int>(cause);
    grantees.all.clear();
  }
}

TEST_F(PoolHealth, ReplicasWhoseHealthPathAnswersErrorsGetNothingUnlessThatIsSoOfTheWholePool) {
  begin(3);
  const auto ill = [&](std::size_t index, double now) {
    for (int i = 0; i < 3; ++i) pool->health().ill(keys[index], 503, at(now));
    report(index, Sign::answered, 9, now);
  };
  ill(0, 1);
  EXPECT_EQ(chosen(1), (std::set<ReplicaIndex>{1, 2}));
  ill(1, 2);
  EXPECT_EQ(chosen(2), (std::set<ReplicaIndex>{2}));
  ill(2, 3);
  EXPECT_EQ(chosen(3), (std::set<ReplicaIndex>{0, 1, 2})) << "so the path is wrong, or all are";
  EXPECT_EQ(pool->health().of(keys[2], at(3)).reason, "its health path answers 503");
  report(2, Sign::probe_passed, 1, 4);
  EXPECT_EQ(chosen(4), (std::set<ReplicaIndex>{2}));
}

TEST_F(PoolHealth, AReplicaThatSaysThatItSleepsGetsNothingWhileAnotherIsAwakeAndThatIsItsReason) {
  begin(3);
  const auto says = [&](std::size_t index, bool asleep) {
    return pool->health().engine_told(keys[index], {.kv_tokens = {}, .max_context = {}, .asleep = asleep});
  };
  EXPECT_TRUE(says(0, true)) << "its requests go to the others";
  EXPECT_FALSE(says(0, true)) << "it said so before";
  EXPECT_EQ(chosen(1), (std::set<ReplicaIndex>{1, 2}));
  EXPECT_EQ(state(0, 1), up);
  EXPECT_TRUE(pool->health().of(keys[0], at(1)).asleep);
  EXPECT_EQ(pool->health().of(keys[0], at(1)).reason, "it says that it sleeps");
  report(1, Sign::failed, 5, 2);
  EXPECT_EQ(state(1, 2), up) << "the pool cannot spare one more";
  report(1, Sign::refused, 1, 3);
  report(2, Sign::refused, 1, 3);
  EXPECT_EQ(chosen(3), (std::set<ReplicaIndex>{0})) << "nobody is awake";
  report(0, Sign::refused, 1, 4);
  EXPECT_FALSE(pool->health().of(keys[0], at(4)).asleep);
  EXPECT_EQ(pool->health().of(keys[0], at(4)).reason, "it refuses connections");
  begin(2);
  EXPECT_TRUE(says(0, true));
  EXPECT_FALSE(says(1, true)) << "nobody is awake";
  EXPECT_EQ(chosen(1), (std::set<ReplicaIndex>{0, 1})) << "all sleep";
  EXPECT_FALSE(says(0, false));
  EXPECT_EQ(chosen(1), (std::set<ReplicaIndex>{0}));
  EXPECT_EQ(pool->health().of(keys[0], at(1)).reason, "it was there from the start");
}

TEST_F(PoolHealth, EjectionCanBeSwitchedOff) {
  auto spec = replica("a");
  spec.health.eject = false;
  pool = pool_of({spec, replica("b")}, config::Policy::round_robin);
  keys = {pool->figures().key(0), pool->figures().key(1)};
  report(1, Sign::answered, 20, 1);
  report(0, Sign::failed, 20, 1);
  report(0, Sign::client_error, 20, 1);
  report(0, Sign::outdone, 20, 1);
  EXPECT_EQ(state(0, 1), up);
}

TEST_F(PoolHealth, OneThatComesLaterHoldsOneRequestAndThenTwiceWhatItFinished) {
  begin(2);
  const ReplicaSpec three[] = {replica("a"), replica("b"), replica("c")};
  const auto indexes = pool->set_replicas(three, at(1));
  keys.push_back(pool->figures().key(indexes[2]));
  EXPECT_EQ(state(2, 1), starting);
  std::vector<Lease> held;
  const auto held_by_new = [&] {
    return std::ranges::count_if(held, [&](const Lease& lease) { return lease.replica() == indexes[2]; });
  };
  for (int i = 0; i < 30; ++i) held.push_back(admitted(place(*pool, prompt_of(100), at(1))));
  EXPECT_EQ(held_by_new(), 1);
  for (auto& lease : held)
    if (lease.replica() == indexes[2]) lease.first_token(at(2));
  EXPECT_EQ(state(2, 2), starting) << "its peers hold more than 200";
  for (int i = 0; i < 30; ++i) held.push_back(admitted(place(*pool, prompt_of(100), at(2))));
  EXPECT_EQ(held_by_new(), 3) << "200 tokens beside the one that decodes";
  for (auto& lease : held)
    if (lease.replica() != indexes[2]) lease.first_token(at(3));
  EXPECT_EQ(state(2, 3), up) << "its peers hold nothing now";
}

TEST_F(PoolHealth, WhatIsSaidOfOneThatIsGoneTouchesNobody) {
  begin(1);
  const ReplicaSpec other[] = {replica("z")};
  pool->set_replicas(other, at(1));
  const ReplicaSpec third[] = {replica("y")};
  const auto reused = pool->set_replicas(third, at(2));
  ASSERT_EQ(reused[0], keys[0].index) << "the place is used again";
  report(0, Sign::refused, 1, 3);
  EXPECT_EQ(pool->health().of(pool->figures().key(reused[0]), at(3)).state, starting);
  EXPECT_EQ(state(0, 3), down);
}

TEST_F(PoolHealth, TellsChangesByName) {
  begin(2);
  report(1, Sign::failed, 5, 1);
  EXPECT_EQ(pool->health().take_changes(at(5)).size(), 1u);
  const auto later = pool->health().take_changes(at(11));
  ASSERT_EQ(later.size(), 1u) << "time alone brings it back";
  EXPECT_EQ(later[0].replica, "b");
  EXPECT_EQ(later[0].change.to, starting);
}

TEST_F(PoolHealth, AReplicaWhoseNameHasNoAddressIsDownAndNoPeerUntilItsProbesPass) {
  begin(2);
  const std::string why = "its name 'b' has no address: Name or service not known";
  for (const double now : {1, 6}) pool->health().unresolved(keys[1], why, at(now));
  EXPECT_EQ(state(1, 6), down);
  EXPECT_EQ(pool->health().of(keys[1], at(6)).reason, why);
  EXPECT_EQ(pool->health().take_changes(at(6)).size(), 1u) << "it is told once";
  report(0, Sign::failed, 20, 7);
  EXPECT_EQ(state(0, 7), up) << "it has no peer that could stand in";
  EXPECT_FALSE(pool->another_is_left({}, keys[0].serial));
  EXPECT_EQ(chosen(8), std::set<ReplicaIndex>{0});
  report(1, Sign::probe_passed, 3, 9);
  EXPECT_EQ(state(1, 9), starting);
}

}  // namespace
}  // namespace weir::balancer
