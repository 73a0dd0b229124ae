#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "proxy/fleet/fleet.hpp"

namespace weir::proxy::fleet {
namespace {

std::size_t taken_of(RetryBudget& budget, std::size_t in_flight, std::size_t tries = 1000) {
  std::size_t taken = 0;
  for (std::size_t i = 0; i < tries; ++i) taken += budget.take(in_flight) ? 1 : 0;
  return taken;
}

TEST(RetryBudget, IsAShareOfTheRequestsInFlightAndAtLeastThree) {
  const struct {
    double share;
    std::size_t in_flight, limit;
  } rows[]{{0.2, 0, 3},  {0.2, 1, 3},    {0.2, 19, 3}, {0.2, 20, 4},
           {0.2, 24, 4}, {0.2, 100, 20}, {1, 7, 7},    {0.001, 50, 3}};
  for (const auto& row : rows) {
    RetryBudget budget(row.share);
    EXPECT_EQ(taken_of(budget, row.in_flight), row.limit) << row.share << " of " << row.in_flight;
  }
}

TEST(RetryBudget, OfNothingAllowsNoRetry) {
  RetryBudget budget(0);
  EXPECT_EQ(taken_of(budget, 1'000'000), 0u);
}

TEST(RetryBudget, GetsBackWhatEnded) {
  RetryBudget budget(0.5);
  EXPECT_EQ(taken_of(budget, 10), 5u);
  budget.give_back();
  budget.give_back();
  EXPECT_EQ(taken_of(budget, 10), 2u) << "a refusal takes nothing";
  EXPECT_EQ(taken_of(budget, 20), 5u) << "it grows with the load";
  EXPECT_FALSE(budget.take(1)) << "and shrinks with it";
}

TEST(RetryBudget, IsNeverOverdrawnByThreads) {
  RetryBudget budget(0.5);
  std::atomic<std::size_t> held{0}, most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        if (!budget.take(8)) continue;
        const auto now = held.fetch_add(1) + 1;
        for (auto seen = most.load(); seen < now && !most.compare_exchange_weak(seen, now);) continue;
        held.fetch_sub(1);
        budget.give_back();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_LE(most, 4u);
  EXPECT_EQ(taken_of(budget, 8), 4u) << "and nothing was lost";
}

}  // namespace
}  // namespace weir::proxy::fleet
