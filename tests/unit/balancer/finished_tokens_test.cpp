#include "balancer/finished_tokens.hpp"

#include "requests.hpp"

namespace weir::balancer {
namespace {

TEST(FinishedTokens, CountTheLastThirtySeconds) {
  FinishedTokens finished;
  EXPECT_EQ(finished.per_second(at(0)), 0);
  finished.add(3000, at(0.5));
  finished.add(3000, at(10.5));
  EXPECT_DOUBLE_EQ(finished.per_second(at(29.9)), 200);
  EXPECT_DOUBLE_EQ(finished.per_second(at(30)), 100);
  EXPECT_DOUBLE_EQ(finished.per_second(at(40)), 0);
  finished.add(600, at(60.5));  // This lies in the bucket of 0.5.
  EXPECT_DOUBLE_EQ(finished.per_second(at(61)), 20);
}

TEST(FinishedTokens, RetryAfterIsWholeSecondsFrom1To60) {
  FinishedTokens finished;
  EXPECT_EQ(finished.retry_after(1000, 0, at(0)), 5u);
  finished.add(3000, at(0));  // They are 100 per second.
  EXPECT_EQ(finished.retry_after(0, 0, at(1)), 1u);
  EXPECT_EQ(finished.retry_after(100, 0, at(1)), 1u);
  EXPECT_EQ(finished.retry_after(101, 0, at(1)), 2u);
  EXPECT_EQ(finished.retry_after(1234, 0, at(1)), 13u);
  EXPECT_EQ(finished.retry_after(1'000'000'000, 0, at(1)), 60u);
}

TEST(FinishedTokens, TheRefusedCountAsWaitingUntilTheyComeBack) {
  FinishedTokens finished;
  finished.add(3000, at(0));
  EXPECT_EQ(finished.retry_after(200, 200, at(1)), 2u);
  EXPECT_EQ(finished.retry_after(200, 200, at(1)), 4u) << "the first comes back before it";
  EXPECT_EQ(finished.retry_after(200, 200, at(1)), 6u);
  EXPECT_EQ(finished.retry_after(100, 100, at(3)), 5u) << "the first is back, 400 of the others are to come";
  EXPECT_EQ(finished.retry_after(100, 100, at(20)), 1u) << "all are back";
}

TEST(FinishedTokens, HowFastAQueueDrainsShowsOnlyWhileRequestsWait) {
  FinishedTokens finished;
  finished.pass(at(0), false);
  finished.add(100, at(5));
  finished.pass(at(20), false);
  EXPECT_FALSE(finished.drain_rate(at(20)));
  finished.pass(at(20.9), true);
  finished.add(900, at(20.9));
  EXPECT_FALSE(finished.drain_rate(at(20.9))) << "less than a second of it";
  finished.pass(at(22), true);
  finished.add(1100, at(22));
  ASSERT_TRUE(finished.drain_rate(at(22)));
  EXPECT_NEAR(*finished.drain_rate(at(22)), 1000, 1e-6);
  finished.pass(at(40), false);
  EXPECT_NEAR(*finished.drain_rate(at(40)), 1000, 1e-6) << "idle time says nothing";
  EXPECT_FALSE(finished.drain_rate(at(60)));
}

TEST(FinishedTokens, WaitingForLongIsSpreadOverTheSeconds) {
  FinishedTokens finished;
  finished.pass(at(0), false);
  finished.pass(at(100), true);
  finished.add(3000, at(100));
  EXPECT_NEAR(*finished.drain_rate(at(100)), 3000 / 29.0, 3.6);
  finished.pass(at(110), false);
  EXPECT_NEAR(*finished.drain_rate(at(110)), 3000 / 19.0, 9);
}

}  // namespace
}  // namespace weir::balancer
