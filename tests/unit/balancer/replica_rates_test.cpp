#include "balancer/replica_rates.hpp"

#include "requests.hpp"

namespace weir::balancer {
namespace {

TEST(ReplicaRates, AreNotKnownBefore20Requests) {
  ReplicaRates rates;
  for (int i = 1; i <= 19; ++i) rates.prompt_finished(1000, 0.1 * i);
  EXPECT_FALSE(rates.prefill());
  rates.prompt_finished(1000, 2.0);
  ASSERT_TRUE(rates.prefill());
  EXPECT_NEAR(*rates.prefill(), 10'000, 500);

  for (int i = 0; i < 19; ++i) rates.answer_finished(101, 2);
  EXPECT_FALSE(rates.decode());
  rates.answer_finished(101, 2);
  EXPECT_DOUBLE_EQ(rates.decode().value_or(0), 50);
}

TEST(ReplicaRates, FollowAChangeInTheTimeTheyRemember) {
  ReplicaRates rates;
  double pending = 0;
  for (int i = 0; i < 1000; ++i) rates.prompt_finished(1000, pending += 0.1);
  EXPECT_NEAR(*rates.prefill(), 10'000, 50);
  for (int i = 0; i < 600; ++i)
    rates.prompt_finished(1000, pending += 0.2);  // The replica works for 120 s at half the
                                                  // speed.
  EXPECT_NEAR(*rates.prefill(), 5'000, 150);
}

TEST(ReplicaRates, FinishedTogetherCountsAsOneStretchOfWork) {
  ReplicaRates rates;
  double pending = 0;
  for (int i = 0; i < 100; ++i) {
    rates.prompt_finished(500, pending += 0.1);
    rates.prompt_finished(500, pending);
  }
  EXPECT_NEAR(*rates.prefill(), 10'000, 50);
}

TEST(ReplicaRates, CachedTokensAreNoWork) {
  ReplicaRates rates;
  double pending = 0;
  for (int i = 0; i < 2000; ++i) {
    rates.prompt_finished(1000, pending += 0.1);
    rates.prompt_settled(1000, 100);
  }
  EXPECT_NEAR(*rates.prefill(), 1'000, 50);
}

TEST(ReplicaRates, TimeWithoutSuccessCountsAgainstThem) {
  ReplicaRates rates;
  for (int i = 1; i <= 20; ++i) rates.prompt_finished(1000, 0.1 * i);
  const double before = *rates.prefill();
  rates.prompt_finished(1000, 12.1);  // In ten seconds prompts were pending, and failed.
  EXPECT_LT(*rates.prefill(), before / 3);
}

TEST(ReplicaRates, AnswersWithoutATimeTeachNothing) {
  ReplicaRates rates;
  for (int i = 0; i < 30; ++i) {
    rates.answer_finished(1, 1);
    rates.answer_finished(100, 0);
    rates.prompt_finished(100, 0);
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
