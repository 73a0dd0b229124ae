#include "balancer/replica_rates.hpp"

#include "requests.hpp"

namespace weir::balancer {
namespace {

// A replica whose first tokens come one after the other, or together.
class Rates : public testing::Test {
 protected:
  /// Another request, of which so much is computed in so long.
  void serve(Tokens prompt, Tokens computed, double seconds) {
    const auto ticket = begin();
    first_token(ticket, seconds);
    settle(ticket, prompt, computed);
  }
  ReplicaRates::Ticket begin() {
    rates.prompt_began(++tickets);
    return tickets;
  }
  void first_token(ReplicaRates::Ticket ticket, double seconds) {
    now += seconds;
    rates.prompt_finished(ticket, pending += seconds, at(now));
  }
  void settle(ReplicaRates::Ticket ticket, Tokens prompt, Tokens computed) {
    rates.prompt_settled(ticket, prompt, computed, at(now));
    rates.prompt_ended(ticket, at(now));
  }

  ReplicaRates rates;
  ReplicaRates::Ticket tickets = 0;
  double pending = 0, now = 0;
};

TEST_F(Rates, AreNotKnownBefore20Requests) {
  for (int i = 1; i <= 19; ++i) serve(1000, 1000, 0.1);
  EXPECT_FALSE(rates.prefill());
  serve(1000, 1000, 0.1);
  ASSERT_TRUE(rates.prefill());
  EXPECT_NEAR(*rates.prefill(), 10'000, 1);

  for (int i = 0; i < 19; ++i) rates.answer_finished(101, 2);
  EXPECT_FALSE(rates.decode());
  rates.answer_finished(101, 2);
  EXPECT_DOUBLE_EQ(rates.decode().value_or(0), 50);
}

TEST_F(Rates, FollowAChangeInTheTimeTheyRemember) {
  for (int i = 0; i < 1000; ++i) serve(1000, 1000, 0.1);
  EXPECT_NEAR(*rates.prefill(), 10'000, 1);
  for (int i = 0; i < 600; ++i) serve(1000, 1000, 0.2);  // The replica works for 120 s at half the speed.
  EXPECT_NEAR(*rates.prefill(), 5'000, 150);
}

TEST_F(Rates, FinishedTogetherCountsAsOneStretchOfWorkInAnyOrder) {
  for (int i = 0; i < 100; ++i) {
    const auto first = begin(), second = begin(), third = begin();
    first_token(i % 2 ? first : third, 0.15);
    first_token(second, 0.001);
    first_token(i % 2 ? third : first, 0);
    settle(second, 500, 500);
    settle(first, 900, 900);
    settle(third, 4000, 110);  // The third had little to compute, and came in the batch of the others.
    serve(1000, 1000, 0.1);
  }
  EXPECT_NEAR(*rates.prefill(), 10'000, 50);
}

TEST_F(Rates, APromptThatWasCachedTeachesNothing) {
  for (int i = 0; i < 100; ++i) {
    serve(1000, 10, 0.02);
    serve(1000, 1000, 0.1);
    serve(1000, 499, 0.5);
    serve(255, 255, 0.5);
  }
  EXPECT_NEAR(*rates.prefill(), 10'000, 1);
}

TEST_F(Rates, TheTimeInWhichAnOlderPromptWasWorkedOnIsItsOwn) {
  for (int i = 0; i < 100; ++i) {
    const auto long_one = begin();
    for (int k = 0; k < 9; ++k) serve(1000, 10, 0.02);  // The engine works on all at once.
    first_token(long_one, 0.02);
    settle(long_one, 2000, 2000);
    serve(1000, 1000, 0.1);
  }
  EXPECT_NEAR(*rates.prefill(), 10'000, 350);
}

TEST_F(Rates, AnAnswerThatTellsNothingTeachesNothing) {
  for (int i = 0; i < 100; ++i) {
    serve(1000, 1000, 0.1);
    const auto left = begin();
    first_token(left, 0.01);
    rates.prompt_ended(left, at(now));
  }
  EXPECT_NEAR(*rates.prefill(), 10'000, 1);
}

TEST_F(Rates, AStretchOfWhichOneAnswerTellsNothingTeachesNothing) {
  for (int i = 0; i < 100; ++i) {
    serve(1000, 1000, 0.1);
    const auto told = begin(), left = begin();
    first_token(told, 0.3);
    first_token(left, 0);
    settle(told, 1000, 1000);
    rates.prompt_ended(left, at(now));
  }
  EXPECT_NEAR(*rates.prefill(), 10'000, 1);
}

TEST_F(Rates, EveryRequestOfAStretchCounts) {
  std::vector<ReplicaRates::Ticket> batch;
  for (int i = 0; i < 20; ++i) batch.push_back(begin());
  for (const auto ticket : batch) first_token(ticket, ticket == batch.front() ? 2 : 0);
  for (const auto ticket : batch) settle(ticket, 1000, 1000);
  serve(1000, 1000, 0.1);
  ASSERT_TRUE(rates.prefill());
  EXPECT_NEAR(*rates.prefill(), 10'000, 1);
}

TEST_F(Rates, WhatTheCacheHeldIsNoWork) {
  for (int i = 0; i < 100; ++i) serve(1000, 600, 0.06);
  EXPECT_NEAR(*rates.prefill(), 10'000, 1);
}

TEST_F(Rates, AnOlderPromptThatNeverGetsAnAnswerStopsNoLearning) {
  begin();
  for (int i = 0; i < 200; ++i) serve(1000, 1000, 0.1);
  ASSERT_TRUE(rates.prefill());
  EXPECT_NEAR(*rates.prefill(), 10'000, 1);
}

TEST_F(Rates, AnEndBeforeTheFirstTokenLeavesNothingBehind) {
  for (int i = 0; i < 100; ++i) {
    const auto left = begin();
    rates.prompt_ended(left, at(now));
    serve(1000, 1000, 0.1);
  }
  ASSERT_TRUE(rates.prefill());
  EXPECT_NEAR(*rates.prefill(), 10'000, 1) << "no older prompt waits";
}

TEST_F(Rates, TimeWithoutSuccessCountsAgainstThem) {
  for (int i = 1; i <= 22; ++i) serve(1000, 1000, 0.1);
  const double before = *rates.prefill();
  serve(1000, 1000, 10);  // In ten seconds prompts were pending, and failed.
  serve(1000, 1000, 0.1);
  EXPECT_LT(*rates.prefill(), before / 3);
}

TEST_F(Rates, ATimeThatIsLeftOutDoesNotCount) {
  for (int i = 1; i <= 22; ++i) serve(1000, 1000, 0.1);
  const auto hung = begin();
  rates.leave_out_until(pending += 10);
  first_token(hung, 0.1);
  settle(hung, 1000, 1000);
  serve(1000, 1000, 0.1);
  EXPECT_NEAR(*rates.prefill(), 10'000, 50);
}

TEST_F(Rates, SlowFirstAnswersFadeWithTheTimeThatPasses) {
  for (int i = 0; i < 21; ++i) serve(1000, 1000, 5);
  EXPECT_NEAR(*rates.prefill(), 200, 1);
  for (int i = 0; i < 10; ++i) {
    now += 9;
    serve(1000, 1000, 0.1);
  }
  EXPECT_GT(*rates.prefill(), 5000) << "ten answers in a minute and a half";
}

TEST_F(Rates, IdleTimeSaysNothing) {
  for (int i = 0; i < 30; ++i) serve(1000, 1000, 0.1);
  now += 3600;
  serve(1000, 1000, 0.1);
  serve(1000, 1000, 0.1);
  EXPECT_NEAR(*rates.prefill(), 10'000, 1);
  now += 3600;
  serve(1000, 1000, 0.2);  // One alone does not replace all.
  serve(1000, 1000, 0.1);
  EXPECT_GT(*rates.prefill(), 8'000);
}

TEST_F(Rates, WhatIsForgottenIsLearnedAnewFromAnswersThatCameLater) {
  for (int i = 0; i < 30; ++i) serve(1000, 1000, 1);
  const auto old = begin();
  first_token(old, 1);
  rates.forget_prefill(pending);
  EXPECT_FALSE(rates.prefill());
  settle(old, 1000, 1000);
  for (int i = 0; i < 7; ++i) serve(1000, 1000, 0.1);
  EXPECT_FALSE(rates.prefill());
  serve(1000, 1000, 0.1);
  ASSERT_TRUE(rates.prefill());
  EXPECT_NEAR(*rates.prefill(), 10'000, 1);
}

TEST_F(Rates, AnswersWithoutATimeTeachNothing) {
  for (int i = 0; i < 30; ++i) {
    rates.answer_finished(1, 1);
    rates.answer_finished(100, 0);
    serve(1000, 1000, 0);
  }
  EXPECT_FALSE(rates.decode());
  EXPECT_FALSE(rates.prefill());
}

TEST(RelativeSpeed, IsTheRateByTheMedianWithinBounds) {
  std::vector<double> three{9, 1, 4}, two{6, 2}, none;
  EXPECT_EQ(median_of(three), 4);
  EXPECT_EQ(median_of(two), 4);
  EXPECT_EQ(median_of(none), 0);
  EXPECT_EQ(relative_speed(2, 4), 0.5);
  EXPECT_EQ(relative_speed(0, 4), 0.25);
  EXPECT_EQ(relative_speed(100, 4), 4);
  EXPECT_EQ(relative_speed(std::nullopt, 4), 1);
  EXPECT_EQ(relative_speed(3, 0), 1);
}

TEST(RelativeSpeed, NearlyTheMedianIsTheMedian) {
  EXPECT_EQ(relative_speed(95, 100), 1);
  EXPECT_EQ(relative_speed(105, 100), 1);
  EXPECT_EQ(relative_speed(85, 100), 0.85);
  EXPECT_EQ(relative_speed(115, 100), 1.15);
}

}  // namespace
}  // namespace weir::balancer
