// Requests that wait in a pool, and what they are told.
#include "pool_queue.hpp"

namespace weir::balancer {
namespace {

using Reason = Refused::Reason;

TEST_F(PoolQueue, AFreePlaceGoesToTheOneThatWaits) {
  begin({places("a", 1)});
  Lease first = admit({"first"}, 1);
  const Waiting second = wait({"second"}, 2);
  EXPECT_EQ(second.deadline, at(32));
  const QueueFigures figures = pool->figures().queue(at(5));
  EXPECT_EQ(figures.waiting, 1u);
  EXPECT_EQ(figures.waiting_tokens, 10u);
  EXPECT_EQ(figures.waiting_bytes, 1u);
  EXPECT_DOUBLE_EQ(figures.oldest_seconds, 3);
  EXPECT_TRUE(sink.all.empty());
  answered(std::move(first), 6);
  auto [name, lease] = sink.take();
  EXPECT_EQ(name, "second");
  EXPECT_EQ(lease.prompt_estimate(), 10u);
  EXPECT_EQ(waiting(6), 0u);
  EXPECT_FALSE(pool->leave(second.ticket, at(7))) << "it has its grant";
  answered(std::move(lease), 8);
  expect_idle(*pool, 1, at(8));
}

TEST_F(PoolQueue, ALeaseThatIsDroppedGrantsTheNext) {
  begin({places("a", 1)});
  Lease first = admit({"first"}, 1);
  wait({"second"}, 1);
  wait({"third"}, 1);
  first = Lease();
  sink.take();  // The request has gone, and its lease goes here.
  EXPECT_EQ(sink.take().first, "third");
}

TEST_F(PoolQueue, WithoutAWaiterOrAQueueOrASinkNobodyWaits) {
  begin({places("a", 1)});
  Lease first = admit({"first"}, 1);
  const auto reason_of = [](Offered offered) { return std::get<Refused>(offered).reason; };
  EXPECT_EQ(reason_of(place(*pool, prompt_of(10), at(1))), Reason::busy);
  pool->set_limits(queue_of(0), at(1));
  EXPECT_EQ(refuse({"no queue"}, 1).reason, Reason::busy);
  auto alone = pool_of({places("a", 1)});
  Lease other = admitted(place(*alone, prompt_of(10), at(1)));
  RequestFacts facts = prompt_of(10);
  EXPECT_EQ(reason_of(alone->offer({.facts = shared(facts), .waiter = named("x")}, at(1))), Reason::busy);
}

TEST_F(PoolQueue, QueuedTokensAreLimitedAndAFirstTokenMakesRoom) {
  begin({tokens("a", 1000)});
  Lease first = admit({"first", 600}, 1);
  Lease second = admit({"second", 400}, 1);
  wait({"third", 1}, 1);
  first.first_token(at(2));
  EXPECT_EQ(sink.take().first, "third");
}

TEST_F(PoolQueue, APromptLongerThanTheLimitGoesWhereNothingIsQueued) {
  begin({tokens("a", 1000)});
  Lease huge = admit({"huge", 5000}, 1);
  wait({"small", 1}, 1);
  huge.first_token(at(2));
  Lease small = sink.take().second;
  wait({"huge too", 5000}, 2);
  small.first_token(at(3));
  EXPECT_EQ(sink.take().first, "huge too") << "although both of the others still stream";
}

TEST_F(PoolQueue, ThePoolsOwnLimitsCountAllReplicas) {
  PoolLimits limits;
  limits.max_in_flight = 3;
  limits.max_queued_tokens = 1000;
  begin({replica("a"), replica("b")}, limits);
  Lease one = admit({"one", 500}, 1);
  Lease two = admit({"two", 500}, 1);
  wait({"three", 1}, 1);
  one.first_token(at(2));
  Lease three = sink.take().second;
  EXPECT_TRUE(three);
  two.first_token(at(2));
  three.first_token(at(2));
  wait({"four", 1}, 2);
  answered(std::move(one), 3);
  EXPECT_EQ(sink.take().first, "four");
}

TEST_F(PoolQueue, ALowerLimitPushesOutAndAHigherOneGrants) {
  begin({places("a", 1)});
  Lease first = admit({"first"}, 1);
  wait({"second"}, 1);
  wait({"third"}, 1);
  pool->set_limits(queue_of(1), at(2));
  EXPECT_EQ(sink.take().first, "third refused");
  const ReplicaSpec wider[] = {places("a", 2)};
  pool->set_replicas(wider, at(3));
  EXPECT_EQ(sink.take().first, "second");
}

TEST_F(PoolQueue, ARequestThatFitsNoLongerWaitsBehindOneThatDoesNotOnceEnginesTellTheirContexts) {
  begin({places("a", 1), places("b", 1)});
  Lease first = admit({"first"}, 1), second = admit({"second"}, 1);
  Wish needs_much{"long"};
  needs_much.max_tokens = 5000;
  wait(needs_much, 2);
  wait({"short"}, 2);
  pool->health().engine_told(pool->figures().key(0), {.kv_tokens = {}, .max_context = 1000});
  pool->health().engine_told(pool->figures().key(1), {.kv_tokens = {}, .max_context = 8000});
  answered(std::move(first.replica() == 0 ? first : second), 3);
  EXPECT_EQ(sink.take().first, "short");
}

TEST_F(PoolQueue, ARequestRatherWaitsThanGoesToAReplicaThatSleepsAndGoesThereOnceItWakes) {
  begin({places("a", 1), places("b", 1)});
  const auto b = pool->figures().key(1);
  pool->health().engine_told(b, {.kv_tokens = {}, .max_context = {}, .asleep = true});
  Lease first = admit({"first"}, 1);
  EXPECT_EQ(first.replica(), 0u);
  wait({"second"}, 1);
  pool->health().engine_told(b, {});
  const auto [name, second] = sink.take();
  EXPECT_EQ(name, "second");
  EXPECT_EQ(second.replica(), 1u);
}

TEST_F(PoolQueue, FullOfRequestsTheLongestKeysNewestIsRefused) {
  begin({places("a", 1)}, queue_of(3));
  Lease first = admit({"first"}, 1);
  wait({"heavy 1", 10, 1}, 1);
  wait({"heavy 2", 10, 1}, 1);
  wait({"heavy 3", 10, 1}, 1);
  wait({"light", 10, 2}, 1);
  ASSERT_EQ(sink.all.size(), 1u);
  EXPECT_EQ(std::get<Refused>(sink.all.front().what).reason, Reason::queue_full);
  EXPECT_EQ(sink.take().first, "heavy 3 refused");
  EXPECT_EQ(refuse({"heavy 4", 10, 1}, 1).reason, Reason::queue_full) << "it is its key's newest";
  EXPECT_TRUE(sink.all.empty());
  EXPECT_EQ(waiting(1), 3u);
}

TEST_F(PoolQueue, FullOfBytesTheKeyWithMostOfThemGivesWay) {
  PoolLimits limits;
  limits.queue_bytes = 1000;
  begin({places("a", 1)}, limits);
  Lease first = admit({"first"}, 1);
  wait({.name = "many", .key = 1, .bytes = 10}, 1);
  wait({.name = "many", .key = 1, .bytes = 10}, 1);
  wait({.name = "large", .key = 2, .bytes = 900}, 1);
  wait({.name = "other", .key = 3, .bytes = 100}, 1);
  ASSERT_EQ(sink.all.size(), 1u);
  EXPECT_EQ(std::get<Refused>(sink.all.front().what).reason, Reason::queue_bytes_full);
  EXPECT_EQ(sink.take().first, "large refused");
  EXPECT_EQ(refuse({.name = "huge", .key = 4, .bytes = 1001}, 1).reason, Reason::queue_bytes_full);
}

TEST_F(PoolQueue, ANewRequestOvertakesNobodyWhoseTurnItIs) {
  begin({places("a", 1), places("b", 1)});
  Lease one = admit({"one"}, 1), two = admit({"two"}, 1);
  const ReplicaKey a = pool->figures().key(0);
  wait({"first"}, 1);
  // A place is free as soon as the replica is no longer full, and nobody has told the pool that time has passed.
  pool->health().report(a, Sign::full, at(1), std::chrono::seconds(5));
  answered(std::move(one.replica() == 0 ? one : two), 2);
  EXPECT_TRUE(sink.all.empty());
  const Waiting second = wait({"second"}, 6.5);
  const auto [name, lease] = sink.take();
  EXPECT_EQ(name, "first");
  EXPECT_TRUE(pool->leave(second.ticket, at(7)));
}

TEST_F(PoolQueue, WhoeverGetsARefusalFromAReplicaGoesToTheHeadAndKeepsItsDeadline) {
  begin({places("a", 1), places("b", 1)});
  Lease one = admit({"one"}, 1), two = admit({"two"}, 1);
  const ReplicaIndex untried = two.replica();
  wait({"older"}, 1);
  Wish back{"back"};
  back.tried = {one.key().serial};
  back.front_of_queue = true;
  back.deadline = at(9);
  pool->health().report(one.key(), Sign::full, at(2));
  EXPECT_EQ(wait(back, 2).deadline, at(9));
  answered(std::move(one), 2.5);
  EXPECT_TRUE(sink.all.empty()) << "it has just said that it is full";
  answered(std::move(two), 2.6);
  auto [name, lease] = sink.take();
  EXPECT_EQ(name, "back");
  EXPECT_EQ(lease.replica(), untried);
  tick(3.1);
  EXPECT_EQ(sink.take().first, "older");
}

TEST_F(PoolQueue, OneThatAFullReplicaRefusedGoesThereAgainBeforeItWaitsForABusyOne) {
  begin({places("a", 1), places("b", 1)});
  Lease one = admit({"one"}, 1), two = admit({"two"}, 1);
  const ReplicaIndex refused_by = one.replica();
  pool->health().report(one.key(), Sign::full, at(2), std::chrono::seconds(3));
  one.end(LeaseEnd(EndCause::replica_failed), at(2));
  wait({.name = "back", .tried = {pool->figures().key(refused_by).serial}, .front_of_queue = true}, 2);
  tick(4.9);
  EXPECT_TRUE(sink.all.empty());
  tick(5);
  auto [name, lease] = sink.take();
  EXPECT_EQ(name, "back");
  EXPECT_EQ(lease.replica(), refused_by);
}

TEST_F(PoolQueue, OneThatAReplicaFailedGoesThereAgainAfterASecondIfTheOthersAreBusy) {
  begin({places("a", 1), places("b", 1)});
  Lease one = admit({"one"}, 1), two = admit({"two"}, 1);
  const ReplicaIndex failed = one.replica();
  one.end(LeaseEnd(EndCause::replica_failed), at(2));
  wait({.name = "back", .tried = {pool->figures().key(failed).serial}}, 2);
  tick(2.9);
  EXPECT_TRUE(sink.all.empty()) << "it prefers another for a while, although nobody else waits";
  tick(3);
  auto [name, lease] = sink.take();
  EXPECT_EQ(name, "back");
  EXPECT_EQ(lease.replica(), failed);
  lease.end(LeaseEnd(EndCause::replica_failed), at(4));
  running = admit({.name = "new"}, 4.1);
  EXPECT_EQ(running.replica(), failed) << "the rest is for requests that it has failed";
}

// Requests of one client may break off; the others' go on. Where all break off, the queue is not sent after them.
TEST_F(PoolQueue, AReplicaThatAnswersOthersRestsOnceThreeInARowHaveFailed) {
  for (const bool answers : {true, false}) {
    begin({places("a", 1)});
    if (answers) pool->health().report(pool->figures().key(0), Sign::answered, at(0), {}, {1});
    running = admit({.name = "0", .key = 2}, 1);
    for (int i = 1; i <= 4; ++i) wait({.name = std::to_string(i), .key = 2}, 1);
    int failed = 0;
    for (bool granted = true; granted; ++failed) {
      running.end(LeaseEnd(EndCause::replica_failed), at(1.1));
      pool->health().report(pool->figures().key(0), Sign::failed, at(1.1), {}, {2});
      granted = !sink.all.empty();
      if (granted) running = sink.take().second;
    }
    EXPECT_EQ(failed, answers ? 3 : 1);
    if (answers) admit({.name = "of another client", .key = 3}, 1.1).end(LeaseEnd(EndCause::answered), at(1.2));
    tick(2.2);
    EXPECT_FALSE(sink.all.empty()) << "the rest is over";
    while (!sink.all.empty()) sink.take();
    EXPECT_EQ(waiting(3), 0u);
  }
}

TEST_F(PoolQueue, OneThatAReplicaFailedGoesToAnotherThatGetsRoomMeanwhile) {
  begin({places("a", 1), places("b", 1)});
  Lease one = admit({"one"}, 1), two = admit({"two"}, 1);
  const ReplicaIndex failed = one.replica(), other = two.replica();
  one.end(LeaseEnd(EndCause::replica_failed), at(2));
  wait({.name = "back", .tried = {pool->figures().key(failed).serial}}, 2);
  answered(std::move(two), 2.5);
  auto [name, lease] = sink.take();
  EXPECT_EQ(name, "back");
  EXPECT_EQ(lease.replica(), other);
}

TEST_F(PoolQueue, WhereAllRefuseOrDrainItWaitsLongerAndForAProbe) {
  auto draining = replica("b");
  draining.draining = true;
  begin({replica("a"), draining});
  pool->health().report(pool->figures().key(0), Sign::refused, at(1));
  EXPECT_EQ(wait({"one"}, 2).deadline, at(62));
  EXPECT_EQ(pool->health().of(pool->figures().key(1), at(2)).state, ReplicaState::draining);
  pool->health().report(pool->figures().key(0), Sign::probe_passed, at(20));
  EXPECT_EQ(sink.take().first, "one");
}

TEST_F(PoolQueue, WhereReplicasAreToComeItWaitsForTheFirst) {
  PoolLimits limits;
  limits.expects_replicas = true;
  begin({}, limits);
  EXPECT_EQ(wait({"one"}, 1).deadline, at(61));
  const auto cannot_wait = place(*pool, prompt_of(10), at(1));
  EXPECT_EQ(std::get<Refused>(cannot_wait).reason, Reason::no_replica);
  const ReplicaSpec first[] = {replica("a")};
  pool->set_replicas(first, at(20));
  EXPECT_EQ(sink.take().first, "one");
  pool->set_replicas({}, at(21));
  EXPECT_EQ(wait({"all have left"}, 21).deadline, at(81));
}

TEST_F(PoolQueue, WhereNoneIsToComeItIsRefusedAtOnce) {
  begin({});
  const auto refused = refuse({"one"}, 1);
  EXPECT_EQ(refused.reason, Reason::no_replica);
  EXPECT_EQ(refused.retry_after, 5u);
}

TEST_F(PoolQueue, ADrainingReplicaKeepsWhatItHasAndTakesNothing) {
  begin({replica("a"), replica("b")});
  std::vector<Lease> held;
  for (int i = 0; i < 4; ++i) held.push_back(admit({"x"}, 1));
  auto a = replica("a");
  a.draining = true;
  const ReplicaSpec specs[] = {a, replica("b")};
  pool->set_replicas(specs, at(2));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(admit({"y"}, 2).replica(), 1u);
  EXPECT_EQ(pool->figures().load(0, at(2)).in_flight, 2u);
  for (int i = 0; i < 5; ++i) pool->health().report(pool->figures().key(1), Sign::failed, at(3));
  EXPECT_EQ(pool->health().of(pool->figures().key(1), at(3)).state, ReplicaState::up) << "it is the last one";
}

TEST_F(PoolQueue, AClientThatLeavesMakesRoomForWhatIsNext) {
  begin({places("a", 1)}, queue_of(1));
  Lease first = admit({"first"}, 1);
  const Waiting gone = wait({"gone"}, 1);
  EXPECT_TRUE(pool->leave(gone.ticket, at(2)));
  EXPECT_FALSE(pool->leave(gone.ticket, at(2)));
  wait({"next"}, 2);
  answered(std::move(first), 3);
  EXPECT_EQ(sink.take().first, "next");
}

TEST_F(PoolQueue, WhoAsksForLongAnswersPaysForThem) {
  begin({places("a", 1)});
  running = admit({"first"}, 1);
  for (int i = 0; i < 3; ++i)
    wait({.name = "long", .prompt = 2044, .key = 1}, 1);  // A turn has 2048 tokens, and 100 of output cost 5.
  for (int i = 0; i < 3; ++i) wait({.name = "short", .prompt = 1024, .key = 2, .stream = true, .max_tokens = 0}, 1);
  std::string order;
  for (int i = 0; i < 6; ++i) {
    answered(std::move(running), 2);
    auto [name, lease] = sink.take();
    order += name.substr(0, 1);
    running = std::move(lease);
  }
  EXPECT_EQ(order, "sslsll");
}

TEST_F(PoolQueue, AnUnknownRateRefusesNobody) {
  begin({places("a", 1)});
  Lease first = admit({"first"}, 1);
  wait({"long", 1'000'000}, 1);
  wait({"behind it", 1'000'000}, 1);
}

TEST_F(PoolQueue, WhatWasFinishedWhileNobodyWaitedSaysNothingOfTheQueue) {
  begin({places("a", 1)});
  for (int i = 0; i < 29; ++i) {
    Lease lease = admit({"x", 10}, i);
    lease.first_token(at(i + 0.01));
    answered(std::move(lease), i + 0.01);
  }
  Lease first = admit({"first", 1000}, 29);
  wait({"10 tokens a second would take 100 s", 1000}, 29.1);
}

}  // namespace
}  // namespace weir::balancer
