// How many of the requests that wait a replica gets when it is new or has come back.
#include "pool_queue.hpp"

namespace weir::balancer {
namespace {

// Replicas have refused connections while a hundred requests came to wait, and come back at 3 s.
class PoolStart : public PoolQueue {
 protected:
  void come_back(std::vector<std::string> names, Wish wish, std::size_t requests = 100) {
    std::vector<ReplicaSpec> specs;
    for (const auto& name : names) specs.push_back(replica(name));
    begin(specs);
    prepare();
    for (ReplicaIndex i = 0; i < specs.size(); ++i) pool->health().report(pool->figures().key(i), Sign::refused, at(1));
    for (std::size_t i = 0; i < requests; ++i) wait(wish, 2);
    for (ReplicaIndex i = 0; i < specs.size(); ++i)
      pool->health().report(pool->figures().key(i), Sign::probe_passed, at(3));
  }
  /// What the replicas learn before they go.
  virtual void prepare() {}
  std::size_t taken(double now) {
    tick(now);
    std::size_t taken = 0;
    for (auto next = sink.take(); next.second; next = sink.take(), ++taken) held.push_back(std::move(next.second));
    return taken;
  }
  ReplicaState state(double now, ReplicaIndex index = 0) {
    return pool->health().of(pool->figures().key(index), at(now)).state;
  }
  void TearDown() override {
    for (std::size_t i = 0; i < held.size(); ++i) held[i] = Lease();
    PoolQueue::TearDown();
  }

  std::deque<Lease> held;
};

TEST_F(PoolStart, OneAloneIsNotFlooded) {
  come_back({"a"}, {"x", 100}, 20);
  EXPECT_EQ(taken(3), 1u);
  EXPECT_EQ(taken(30), 0u) << "it has finished nothing, and a stream would show it";
  held[0].first_token(at(31));
  EXPECT_EQ(taken(31), 2u) << "twice the 100 tokens that it has finished";
  held[1].first_token(at(32));
  EXPECT_EQ(taken(32), 3u) << "400, of which 100 are queued";
  for (std::size_t i = 2; i < 6; ++i) held[i].first_token(at(33));
  EXPECT_EQ(taken(33), 12u) << "1200";
  EXPECT_EQ(state(33), ReplicaState::starting);
  held[6].first_token(at(33));
  EXPECT_EQ(taken(33), 2u) << "it may hold all that is there, so it keeps up";
  EXPECT_EQ(state(33), ReplicaState::up);
}

TEST_F(PoolStart, WhereNothingIsStreamedAPromptCountsAsFinishedAfterFiveSeconds) {
  come_back({"a"}, {.name = "x", .prompt = 100, .stream = false}, 20);
  EXPECT_EQ(taken(3), 1u);
  EXPECT_EQ(taken(7.9), 0u);
  EXPECT_EQ(taken(8), 1u);
  EXPECT_EQ(taken(12.9), 0u);
  EXPECT_EQ(taken(13), 2u);
  EXPECT_EQ(taken(18), 4u);
  answered(std::move(held[0]), 19);
  EXPECT_EQ(taken(19), 0u + 1) << "its prompt is finished once, and its place is free";
  EXPECT_EQ(state(19), ReplicaState::starting);
  EXPECT_EQ(taken(23), 8u);
  EXPECT_EQ(taken(28), 3u);
  EXPECT_EQ(state(28), ReplicaState::up) << "it holds all that is there";
}

TEST_F(PoolStart, AllThatComeBackTogetherDoSo) {
  come_back({"a", "b", "c"}, {.name = "x", .prompt = 100, .stream = false});
  EXPECT_EQ(taken(3), 3u);
  EXPECT_EQ(taken(8), 3u);
  EXPECT_EQ(taken(13), 6u);
  EXPECT_EQ(taken(18) + taken(23) + taken(28), 84u);
  EXPECT_EQ(taken(33), 4u) << "all are on their way half a minute after the return";
}

TEST_F(PoolStart, WhatRanThereBeforeSaysNothing) {
  begin({tokens("a", 10'000)});
  running = admit({.name = "old", .prompt = 5000, .stream = false}, 1);
  for (int i = 0; i < 3; ++i) pool->health().report(pool->figures().key(0), Sign::probe_failed, at(2));
  auto drains = tokens("a", 10'000);
  drains.draining = true;
  pool->set_replicas(std::span(&drains, 1), at(10));
  for (int i = 0; i < 3; ++i) wait({"x", 100}, 20);
  pool->health().report(pool->figures().key(0), Sign::probe_passed, at(20));
  pool->set_replicas(std::vector{tokens("a", 10'000)}, at(20));
  EXPECT_EQ(taken(20), 0u);
}

class PoolStartAtAKnownRate : public PoolStart {
  void prepare() override {
    for (int i = 0; i < 20; ++i) {
      Lease lease = admit({"before", 1000}, 0.1 * i);
      lease.first_token(at(0.1 * (i + 1)));  // 10,000 tokens a second.
      answered(std::move(lease), 0.1 * (i + 1));
    }
  }
};

TEST_F(PoolStartAtAKnownRate, APromptThatIsNotStreamedIsFinishedWhenTheRateSaysSo) {
  come_back({"a"}, {.name = "x", .prompt = 1000, .stream = false}, 20);
  EXPECT_EQ(taken(3), 1u);
  EXPECT_EQ(taken(3.05), 0u);
  EXPECT_EQ(taken(3.11), 2u);
  EXPECT_EQ(taken(3.22), 3u);
}

}  // namespace
}  // namespace weir::balancer
