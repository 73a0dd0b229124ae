#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "balancer/story/retries.hpp"

namespace weir::balancer::story {
namespace {

/// A budget beside so many requests in flight.
struct Budget {
  explicit Budget(double share, std::size_t others = 0)
      : in_flight(others), of(share, [this] { return in_flight.load(); }) {}
  std::size_t taken(std::size_t tries = 1000) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < tries; ++i) count += of.take(now) ? 1 : 0;
    return count;
  }
  std::atomic<std::size_t> in_flight;
  metrics::Moment now{std::chrono::seconds(1000)};
  RetryBudget of;
};

TEST(RetryBudget, IsAShareOfTheRequestsInFlightAndAtLeastThree) {
  const struct {
    double share;
    std::size_t in_flight, limit;
  } rows[]{{0.2, 0, 3},  {0.2, 1, 3},    {0.2, 19, 3}, {0.2, 20, 4},
           {0.2, 24, 4}, {0.2, 100, 20}, {1, 7, 7},    {0.001, 50, 3}};
  for (const auto& row : rows) {
    EXPECT_EQ(Budget(row.share, row.in_flight).taken(), row.limit) << row.share << " of " << row.in_flight;
  }
}

TEST(RetryBudget, OfNothingAllowsNoRetry) { EXPECT_EQ(Budget(0, 1'000'000).taken(), 0u); }

TEST(RetryBudget, GetsBackWhatEnded) {
  Budget budget(0.5, 10);
  EXPECT_EQ(budget.taken(), 5u);
  budget.of.give_back(budget.now);
  budget.of.give_back(budget.now);
  EXPECT_EQ(budget.taken(), 2u) << "a refusal takes nothing";
  budget.in_flight = 20;
  EXPECT_EQ(budget.taken(), 5u) << "it grows with the load";
  budget.in_flight = 1;
  EXPECT_FALSE(budget.of.take(budget.now)) << "and shrinks with it";
}

// An answer that is not streamed shows nothing until its end. Three such retries kept all others from theirs.
TEST(RetryBudget, CountsARetryForTwoSecondsAtMost) {
  Budget budget(0.2);
  const metrics::Moment first = budget.now;
  EXPECT_EQ(budget.taken(), 3u);
  budget.now += RetryBudget::counted_for - std::chrono::nanoseconds(1);
  EXPECT_EQ(budget.taken(), 0u);
  budget.now += std::chrono::nanoseconds(1);
  EXPECT_EQ(budget.taken(), 3u);
  budget.of.give_back(first);
  EXPECT_EQ(budget.taken(), 0u) << "it counted no more, and is given back once";
}

TEST(RetryBudget, IsNeverOverdrawnByThreads) {
  Budget budget(0.5, 8);
  std::atomic<std::size_t> held{0}, most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        const auto taken = budget.of.take(budget.now);
        if (!taken) continue;
        const auto held_now = held.fetch_add(1) + 1;
        for (auto seen = most.load(); seen < held_now && !most.compare_exchange_weak(seen, held_now);) continue;
        held.fetch_sub(1);
        budget.of.give_back(*taken);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_LE(most, 4u);
  EXPECT_EQ(budget.taken(), 4u) << "and nothing was lost";
}

TEST(PoisonMemory, HoldsForAMinuteUntilTheRequestIsAnsweredAndLosesTheOldestWhenFull) {
  using enum PoisonMemory::Known;
  PoisonMemory memory;
  const metrics::Moment start{std::chrono::seconds(1000)};
  EXPECT_EQ(memory.look(1, true, start), no);
  memory.note(1, false, start);
  EXPECT_EQ(memory.look(2, true, start), no);
  EXPECT_EQ(memory.look(1, true, start + PoisonMemory::lasting - std::chrono::nanoseconds(1)), poison);
  EXPECT_EQ(memory.look(1, true, start + PoisonMemory::lasting), no);
  memory.note(1, false, start);
  memory.forget(1);
  EXPECT_EQ(memory.look(1, true, start), no);
  memory.note(1, true, start);
  EXPECT_EQ(memory.look(1, true, start), on_trial);
  EXPECT_EQ(memory.look(1, true, start), poison) << "once";
  memory.forget(1);
  for (std::uint64_t i = 0; i <= PoisonMemory::most; ++i) memory.note(i, false, start + std::chrono::milliseconds(i));
  EXPECT_EQ(memory.look(0, true, start), no) << "the oldest";
  EXPECT_EQ(memory.look(1, true, start), poison);
  EXPECT_EQ(memory.look(PoisonMemory::most, true, start), poison);
}

}  // namespace
}  // namespace weir::balancer::story
