#include "metrics/compare/sides/load_points.hpp"

#include <gtest/gtest.h>

#include <array>

namespace weir::metrics::compare::sides {
namespace {

ReplicaMinute minute_with(double in_flight, double output_tokens_per_second, std::uint32_t good = 0,
                          std::uint32_t bad = 0) {
  ReplicaMinute minute;
  minute.in_flight = in_flight;
  minute.output_tokens = output_tokens_per_second * 60;
  minute.prompt_tokens = 600;
  minute.requests = good + bad;
  minute.good = good;
  minute.bad = bad;
  minute.ttft = 0.1 * in_flight;
  minute.tpot = 0.02;
  return minute;
}

TEST(LoadPoints, AreByTheNumberInFlight) {
  const std::vector<ReplicaMinute> minutes{minute_with(2.2, 100), minute_with(1.8, 80), minute_with(1, 50),
                                           minute_with(0.4, 10)};
  const auto points = load_points(minutes);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_DOUBLE_EQ(points[0].in_flight, 1);
  EXPECT_EQ(points[0].minutes, 1U);
  EXPECT_FALSE(points[0].output_tokens_per_second.interval);
  EXPECT_DOUBLE_EQ(points[1].in_flight, 2);
  EXPECT_DOUBLE_EQ(points[1].output_tokens_per_second.value, 90);
  EXPECT_DOUBLE_EQ(points[1].total_tokens_per_second.value, 100);
  EXPECT_TRUE(points[1].output_tokens_per_second.interval);
  EXPECT_NEAR(points[1].ttft->value, 0.2, 1e-12);
  EXPECT_DOUBLE_EQ(points[1].tokens_per_second_per_user->value, 50);
}

TEST(LoadPoints, HighLoadsShareAPoint) {
  const struct {
    double one, other;
    std::size_t points;
  } cases[]{{7, 8, 2}, {8, 9, 1}, {9, 10, 2}, {16, 19, 1}, {19, 20, 2}, {64, 79, 1}, {79, 80, 2}};
  for (const auto& [one, other, expected] : cases) {
    const std::vector<ReplicaMinute> minutes{minute_with(one, 1), minute_with(other, 1)};
    EXPECT_EQ(load_points(minutes).size(), expected) << one << ' ' << other;
  }
}

TEST(Capacity, IsTheHighestRateBelowTheFirstLoadThatMisses) {
  const std::vector<ReplicaMinute> minutes{minute_with(1, 50, 100, 0), minute_with(4, 160, 1000, 10),
                                           minute_with(8, 200, 990, 11), minute_with(6, 180, 99, 0),
                                           minute_with(20, 300, 1000, 0)};
  const auto capacity = capacity_of(load_points(minutes));
  // At 6 in flight there are too few judged requests; at 8 attainment is 98.9 %, and what holds beyond does not count.
  EXPECT_EQ(capacity.state, Capacity::State::found);
  EXPECT_DOUBLE_EQ(capacity.at->in_flight, 4);
  EXPECT_DOUBLE_EQ(capacity.at->output_tokens_per_second.value, 160);
}

TEST(Capacity, SaysWhatIsNotKnown) {
  const std::vector<ReplicaMinute> fine{minute_with(1, 50, 100, 0), minute_with(2, 40, 100, 0)};
  EXPECT_EQ(capacity_of(load_points(fine)).state, Capacity::State::not_reached);
  EXPECT_DOUBLE_EQ(capacity_of(load_points(fine)).at->output_tokens_per_second.value, 50);
  const std::vector<ReplicaMinute> poor{minute_with(1, 50, 90, 10)};
  EXPECT_EQ(capacity_of(load_points(poor)).state, Capacity::State::none);
  EXPECT_FALSE(capacity_of(load_points(poor)).at);
  const std::vector<ReplicaMinute> few{minute_with(1, 50, 99, 0)};
  EXPECT_EQ(capacity_of(load_points(few)).state, Capacity::State::too_few);
  EXPECT_EQ(capacity_of({}).state, Capacity::State::too_few);
}

}  // namespace
}  // namespace weir::metrics::compare::sides
