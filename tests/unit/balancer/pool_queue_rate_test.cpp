// The rate of the last seconds refuses requests that would wait too long.
#include "pool_queue.hpp"

namespace weir::balancer {
namespace {

using Reason = Refused::Reason;

// The pool finishes so many tokens a second while requests wait.
class PoolQueueRate : public PoolQueue {
 protected:
  void run_at_100_tokens_a_second(double from, double to, PoolLimits limits = {}) {
    begin({places("a", 1)}, limits);
    running = admit({"warm", 100}, from);
    go_on(100, from, to);
  }
  void go_on(Tokens a_second, double from, double to) {
    for (double now = from; now < to; now += 1) {
      wait({.name = "warm", .prompt = a_second, .deadline = at(now + 100)}, now);
      running.first_token(at(now + 1));
      running.end(LeaseEnd(EndCause::answered), at(now + 1));
      running = sink.take().second;
    }
  }
};

/// The spread of what clients are told makes up for the rest of the time.
unsigned seconds_told(double tokens) { return static_cast<unsigned>(std::ceil(0.85 * tokens / 100)); }

TEST_F(PoolQueueRate, OneWhoseTurnComesAfterItsDeadlineIsRefusedAtOnce) {
  run_at_100_tokens_a_second(0, 20);
  const Waiting first = wait({"2900 tokens take 29 s", 2900}, 20);
  const Refused refused = refuse({"200 more", 200}, 20);
  EXPECT_EQ(refused.reason, Reason::too_late);
  EXPECT_EQ(refused.retry_after, seconds_told(2900 + 200 + 100)) << "these wait, and 100 are being worked on";
  EXPECT_EQ(refuse({"another", 1300}, 20).retry_after, seconds_told(2900 + 1300 + 100)) << "the refused one is gone";
  wait({"another key has its turn soon", 200, 5}, 20);
  EXPECT_EQ(refuse({.name = "its own deadline", .prompt = 200, .key = 6, .deadline = at(22)}, 20).reason,
            Reason::too_late);
  EXPECT_EQ(refuse({.name = "passed", .key = 7, .deadline = at(19)}, 20).reason, Reason::expired);
  EXPECT_EQ(pool->leave(first.ticket, at(50))->reason, Reason::expired);
}

TEST_F(PoolQueueRate, ShortPromptsAheadCountAsWhatTheyAreAndNotAsWhatTheyCost) {
  run_at_100_tokens_a_second(0, 20);
  for (int i = 0; i < 190; ++i) wait({"heavy", 15, 1}, 20);
  wait({.name = "five go before it, in a second", .prompt = 15, .key = 2, .deadline = at(22)}, 20);
  EXPECT_EQ(refuse({.name = "all go before it", .prompt = 15, .key = 1, .deadline = at(48)}, 20).reason,
            Reason::too_late);
  wait({.name = "and it has its turn in time", .prompt = 15, .key = 1, .deadline = at(49)}, 20);
}

TEST_F(PoolQueueRate, AFreePlaceRefusesNobody) {
  run_at_100_tokens_a_second(0, 20);
  answered(std::move(running), 20);
  running = admit({"9000 tokens", 9000}, 20);
}

TEST_F(PoolQueueRate, WhileNoneIsUpTheRateSaysNothing) {
  run_at_100_tokens_a_second(0, 20);
  pool->health().report(pool->figures().key(0), Sign::refused, at(20));
  EXPECT_EQ(wait({"90 s", 9000}, 20).deadline, at(80));
}

TEST_F(PoolQueueRate, AnOutageIsNoSlowQueue) {
  run_at_100_tokens_a_second(0, 20);
  running.end(LeaseEnd(EndCause::replica_failed), at(20));
  sink.all.clear();
  pool->health().report(pool->figures().key(0), Sign::refused, at(20));
  wait({"it was there in the outage", 100}, 20);
  tick(45);
  pool->health().report(pool->figures().key(0), Sign::probe_passed, at(45));
  running = sink.take().second;
  wait({"2000 tokens take 20 s", 2000}, 45);
}

/// A replica asks to be left alone for a second, and is then granted all that waited, which it finishes at once.
TEST_F(PoolQueueRate, ARestIsNoSlowQueue) {
  begin({replica("a")});
  for (double now = 0; now < 20; now += 1.3) {
    Lease under_way = admit({"under way", 50}, now);
    pool->health().report(pool->figures().key(0), Sign::full, at(now), std::chrono::seconds(1));
    for (int i = 0; i < 40; ++i) wait({"in the rest", 5000}, now + 0.05);
    under_way.first_token(at(now + 0.5));
    answered(std::move(under_way), now + 0.6);
    tick(now + 1.1);
    ASSERT_EQ(sink.all.size(), 40u);
    while (!sink.all.empty()) {
      Lease lease = sink.take().second;
      lease.first_token(at(now + 1.15));
      answered(std::move(lease), now + 1.2);
    }
  }
}

TEST_F(PoolQueueRate, TokensOfThoseThatDidNotWaitDrainNoQueue) {
  run_at_100_tokens_a_second(0, 20);
  answered(std::move(running), 20);
  Lease at_once = admit({"at once", 50'000}, 20.1);
  at_once.first_token(at(20.5));
  answered(std::move(at_once), 20.6);
  running = admit({"under way", 100}, 20.7);
  wait({"3000 tokens take 30 s", 3000}, 21);
  EXPECT_EQ(refuse({"400 more", 400}, 21).reason, Reason::too_late);
}

TEST_F(PoolQueueRate, WhatWasLongAgoSaysNothing) {
  run_at_100_tokens_a_second(0, 20);
  answered(std::move(running), 20);
  running = admit({"under way", 100}, 100);
  wait({"90 s", 9000}, 100);
}

TEST_F(PoolQueueRate, ARetryAfterFollowsAReplicaThatBecomesFiftyTimesFaster) {
  const auto told = [this](double now) {
    return refuse({.name = "50 s at first", .prompt = 5000, .deadline = at(now + 0.5)}, now).retry_after;
  };
  run_at_100_tokens_a_second(0, 20);
  EXPECT_EQ(told(20), 40u);
  go_on(5000, 20, 25);
  EXPECT_LE(told(25), 8u);
  go_on(5000, 25, 40);
  EXPECT_LE(told(40), 3u);
}

TEST_F(PoolQueueRate, ARetryAfterFollowsAReplicaThatRests) {
  const auto told = [this](double now) {
    return refuse({.name = "too late", .prompt = 500, .deadline = at(now + 1)}, now).retry_after;
  };
  run_at_100_tokens_a_second(0, 20);
  wait({"in the rest", 1000}, 20);
  EXPECT_EQ(told(20), seconds_told(1000 + 500 + 100));
  for (double now = 21; now <= 30; now += 1) tick(now);
  EXPECT_NEAR(told(30), seconds_told(2 * (1000 + 500 + 100)), 2) << "nothing was finished for half of the time";
}

TEST_F(PoolQueueRate, OneThatGoesBeforeAllTurnsIsNotRefusedByIt) {
  run_at_100_tokens_a_second(0, 20);
  wait({.name = "a replica had it before", .prompt = 1000, .front_of_queue = true, .deadline = at(22)}, 20);
}

}  // namespace
}  // namespace weir::balancer
