// A budget's account beside a naive one. Rules are exact; what threads do together is a property.
#include "proxy/net/buffer_budget.hpp"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

namespace weir::proxy::net {
namespace {

constexpr auto step = BufferBudget::step;

TEST(BufferBudget, CountsWholeStepsRoundedDown) {
  BufferBudget budget(100 * step);
  BudgetHold hold(budget);
  const std::size_t rows[][2]{{0, 0},           {step - 1, 0}, {step, step}, {2 * step - 1, step}, {7 * step, 7 * step},
                              {step + 1, step}, {1, 0}};
  for (const auto& [bytes, counted] : rows) {
    hold.set(bytes);
    EXPECT_EQ(budget.used(), counted) << bytes;
    EXPECT_EQ(hold.reserved(), counted) << bytes;
  }
}

TEST(BufferBudget, LetsGoWithTheChargeAndNotBefore) {
  BufferBudget budget(100 * step);
  {
    BudgetHold hold(budget);
    hold.set(3 * step);
    BudgetHold moved(std::move(hold));
    EXPECT_EQ(budget.used(), 3 * step);
    BudgetHold other(budget);
    other.set(5 * step);
    other = std::move(moved);
    EXPECT_EQ(budget.used(), 3 * step) << "what it had is let go";
    auto& itself = other;
    other = std::move(itself);
    EXPECT_EQ(budget.used(), 3 * step);
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(BufferBudget, IsTightAboveThreeQuartersAndSpentAtItsLimit) {
  BufferBudget budget(8 * step);
  BudgetHold hold(budget);
  for (std::size_t steps = 0; steps <= 9; ++steps) {
    hold.set(steps * step);
    EXPECT_EQ(budget.tight(), steps > 6) << steps;
    EXPECT_EQ(budget.spent(), steps >= 8) << steps;
  }
  budget.set_limit(12 * step);
  EXPECT_FALSE(budget.tight());
  EXPECT_FALSE(budget.spent());
}

TEST(BufferBudget, TriesToTheLimitAndGoesOverItOnlyWhereThatIsSaid) {
  BufferBudget budget(4 * step);
  BudgetHold first(budget), second(budget);
  EXPECT_TRUE(first.try_set(3 * step));
  EXPECT_FALSE(second.try_set(2 * step));
  EXPECT_EQ(budget.used(), 3 * step) << "nothing of it was taken";
  EXPECT_EQ(second.reserved(), 0u);
  EXPECT_TRUE(second.try_set(step));
  EXPECT_TRUE(second.try_set(2 * step - 1)) << "it takes no step more";
  second.set(3 * step);
  EXPECT_EQ(budget.used(), 6 * step);
  EXPECT_TRUE(first.try_set(step)) << "less is always there";
  EXPECT_EQ(budget.used(), 4 * step);
  second.less(step);
  EXPECT_EQ(budget.used(), 3 * step);
  second.less(100 * step);
  EXPECT_EQ(budget.used(), step);
}

TEST(BufferBudget, AChargeOfNoBudgetCountsNothing) {
  BufferBudget budget(step);
  BudgetHold hold;
  hold.set(10 * step);
  EXPECT_TRUE(hold.try_set(20 * step));
  EXPECT_EQ(hold.reserved(), 0u);
  hold = BudgetHold(budget);
  hold.set(step);
  EXPECT_EQ(budget.used(), step);
}

TEST(BufferBudget, IsTheSumOfItsChargesWhateverTheyDoAndZeroAtTheEnd) {
  std::mt19937 random(3);
  BufferBudget budget(1000 * step);
  {
    std::vector<BudgetHold> holds;
    for (int i = 0; i < 5000; ++i) {
      const auto bytes = random() % (40 * step);
      if (holds.size() < 30 && random() % 4 == 0) holds.emplace_back(budget);
      if (holds.empty()) continue;
      auto& one = holds[random() % holds.size()];
      auto& other = holds[random() % holds.size()];
      switch (random() % 6) {
        case 0:
          one.set(bytes);
          break;
        case 1: {
          const auto before = one.reserved();
          if (!one.try_set(bytes)) {
            EXPECT_EQ(one.reserved(), before);
          }
          break;
        }
        case 2:
          one.less(bytes);
          break;
        case 3:
          if (&one != &other) one = std::move(other);
          break;
        case 4:
          if (random() % 5 == 0) holds.pop_back();
          break;
        default:
          one.set(0);
          break;
      }
      std::size_t sum = 0;
      for (const auto& hold : holds) sum += hold.reserved();
      ASSERT_EQ(budget.used(), sum);
    }
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(BufferBudget, LosesNothingBetweenThreads) {
  BufferBudget budget(20 * step);
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&budget, seed] {
      std::mt19937 random(seed);
      BudgetHold hold(budget);
      for (int i = 0; i < 20'000; ++i)
        random() % 2 == 0 ? hold.set(random() % (8 * step))
                          : static_cast<void>(hold.try_set(random() % (8 * step)));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), 0u);
}

}  // namespace
}  // namespace weir::proxy::net
