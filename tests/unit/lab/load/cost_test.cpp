#include "lab/load/cost.hpp"

#include <gtest/gtest.h>

namespace weir::lab::load {
namespace {

TEST(Cost, FollowsFromThePricesOfTokens) {
  const auto cost = cost_of({.in = 0.5, .out = 1.5, .per_hour = {}}, {200, 110'000, 30'000, 60});
  ASSERT_TRUE(cost);
  EXPECT_NEAR(cost->per_1000_requests, (0.11 * 0.5 + 0.03 * 1.5) / 200 * 1000, 1e-9);
  EXPECT_NEAR(cost->per_million_tokens, 0.1 / 0.14, 1e-9);
  EXPECT_NEAR(cost->per_million_output_tokens, 0.1 / 0.03, 1e-9);
  EXPECT_NEAR(cost_of({.in = {}, .out = 2, .per_hour = {}}, {1, 1, 1'000'000, 1})->per_1000_requests, 2000, 1e-6);
}

TEST(Cost, FollowsFromThePriceOfAnHour) {
  const auto cost = cost_of({.in = {}, .out = {}, .per_hour = 3.6}, {200, 110'000, 30'000, 60});
  EXPECT_NEAR(cost->per_1000_requests, 0.06 / 200 * 1000, 1e-9);
  EXPECT_NEAR(cost->per_million_output_tokens, 2, 1e-9);
  EXPECT_FALSE(cost_of({}, {200, 1, 1, 1}));
  EXPECT_FALSE(cost_of({.in = {}, .out = {}, .per_hour = 3.6}, {}));
}

}  // namespace
}  // namespace weir::lab::load
