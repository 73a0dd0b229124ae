#include "balancer/finished_tokens.hpp"

#include "requests.hpp"

namespace weir::balancer {
namespace {

TEST(FinishedTokens, TheBestOfTheLastThirtySecondsIsWhatCanBeDone) {
  FinishedTokens finished;
  EXPECT_EQ(finished.best_second(at(0)), 0);
  finished.add(2000, at(0.1), false);
  finished.add(3000, at(0.9), false);
  finished.add(3000, at(10.5), false);
  EXPECT_EQ(finished.best_second(at(29.9)), 5000);
  EXPECT_EQ(finished.best_second(at(30)), 3000);
  EXPECT_EQ(finished.best_second(at(40)), 0);
  finished.add(600, at(60.5), false);  // This lies in the bucket of 0.5.
  EXPECT_EQ(finished.best_second(at(61)), 600);
}

TEST(FinishedTokens, HowFastAQueueDrainsShowsOnlyWhileRequestsWait) {
  FinishedTokens finished;
  finished.pass(at(0), false);
  finished.add(100, at(5), false);
  finished.pass(at(20), false);
  EXPECT_FALSE(finished.drain_rate(at(20)));
  finished.pass(at(20.9), true);
  finished.add(900, at(20.9), false);
  EXPECT_FALSE(finished.drain_rate(at(20.9))) << "less than a second of it";
  finished.pass(at(22), true);
  finished.add(1100, at(22), false);
  ASSERT_TRUE(finished.drain_rate(at(22)));
  EXPECT_NEAR(*finished.drain_rate(at(22)), 1000, 1e-6);
  finished.pass(at(40), false);
  EXPECT_NEAR(*finished.drain_rate(at(40)), 1000, 1e-6) << "idle time says nothing";
  EXPECT_FALSE(finished.drain_rate(at(60)));
}

TEST(FinishedTokens, WhatHasWaitedMayHaveBeenDrainedWheneverItIsFinished) {
  FinishedTokens finished;
  finished.pass(at(0), false);
  finished.pass(at(2), true);
  finished.pass(at(2), false);
  finished.add(5000, at(2.1), false);
  EXPECT_FALSE(finished.drain_rate(at(2.1)));
  finished.add(4000, at(2.2), true);
  EXPECT_NEAR(*finished.highest_drain_rate(at(2.2)), 2000, 1e-6);
  EXPECT_FALSE(finished.drain_rate(at(2.2)));
}

TEST(FinishedTokens, WaitingForLongIsSpreadOverTheSeconds) {
  FinishedTokens finished;
  finished.pass(at(0), false);
  finished.pass(at(100), true);
  finished.add(3000, at(100), false);
  EXPECT_NEAR(*finished.drain_rate(at(100)), 3000 / 29.0, 3.6);
  finished.pass(at(110), false);
  EXPECT_NEAR(*finished.drain_rate(at(110)), 3000 / 19.0, 9);
}

}  // namespace
}  // namespace weir::balancer
