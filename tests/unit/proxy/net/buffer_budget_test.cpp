// A budget's account beside a naive one. Rules are exact; what threads do together is a property.
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "proxy/net/buffer_budget.hpp"

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
        random() % 2 == 0 ? hold.set(random() % (8 * step)) : static_cast<void>(hold.try_set(random() % (8 * step)));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), 0u);
}

using metrics::Moment;
using metrics::Nanoseconds;
using std::chrono::seconds;

constexpr Nanoseconds a_window = seconds(8), a_step = a_window / static_cast<int>(RateWindow::steps);
constexpr Moment begun{std::chrono::hours(1)};

RateWindow begun_window() {
  RateWindow window;
  window.begin(begun, a_window);
  return window;
}

TEST(RateWindow, JudgesTheLastWindowAlone) {
  auto window = begun_window();
  EXPECT_EQ(window.behind_at(0), Moment::max());
  EXPECT_EQ(window.behind_at(1), begun + a_window);
  window.add(begun, std::size_t{1} << 40);
  EXPECT_EQ(window.behind_at(1), begun + a_window + a_step) << "it is earned for one window, however much it was";
  window.add(begun + seconds(100), 8);
  EXPECT_EQ(window.behind_at(1), begun + seconds(100)) << "whoever was behind is so until a window is right";
  window.begin(begun + seconds(200), a_window);
  EXPECT_EQ(window.behind_at(1), begun + seconds(200) + a_window);
  window.add(begun + seconds(207), 8);
  EXPECT_EQ(window.behind_at(1), begun + seconds(207) + a_window + a_step);
  EXPECT_EQ(window.behind_at(2), begun + seconds(208));
}

TEST(RateWindow, TellsWhatCameLately) {
  auto window = begun_window();
  window.add(begun, 5);
  window.add(begun + a_step, 7);
  EXPECT_EQ(window.recent(begun + a_step), 12u);
  EXPECT_EQ(window.recent(begun + 2 * a_step), 7u);
  EXPECT_EQ(window.recent(begun + 3 * a_step), 0u);
  EXPECT_EQ(window.recent(begun + 1000 * a_step), 0u);
}

/// A peer that has `rate` bytes a second in every window: at least `parts` events in each, with their part each.
TEST(RateWindow, CutsNobodyWhoKeepsTheRate) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&random](std::int64_t least, std::int64_t most) {
      return std::uniform_int_distribution<std::int64_t>(least, most)(random);
    };
    const auto parts = draw(1, 20), rate = draw(1, 100'000);
    const auto part = (rate * 8 + parts - 1) / parts;
    auto window = begun_window();
    for (auto now = begun; now < begun + seconds(100);) {
      now += Nanoseconds(draw(1, a_window.count() / parts - 1));
      ASSERT_GT(window.behind_at(static_cast<std::size_t>(rate)), now) << "seed " << seed;
      window.add(now, static_cast<std::size_t>(part + (draw(0, 9) == 0 ? draw(0, 1 << 20) : 0)));
      ASSERT_GT(window.behind_at(static_cast<std::size_t>(rate)), now) << "seed " << seed;
    }
  }
}

TEST(RateWindow, CutsWhoeverStaysBelowWithinAWindowAndAStepWhateverCameBefore) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&random](std::int64_t least, std::int64_t most) {
      return std::uniform_int_distribution<std::int64_t>(least, most)(random);
    };
    const auto rate = draw(100'000, 1'000'000);
    auto window = begun_window();
    auto now = begun;
    for (const auto until = begun + Nanoseconds(draw(0, 5 * a_window.count())); now < until;) {
      now += Nanoseconds(draw(1, a_window.count() / 2));
      window.add(now, static_cast<std::size_t>(draw(0, 1) * draw(0, std::int64_t{1} << 34)));
    }
    const auto slow_from = now;
    const auto most_share = static_cast<double>(draw(0, 95)) / 100;
    // The window is looked at in ticks alone, as a loop does, however many bytes come between them.
    constexpr auto tick = std::chrono::milliseconds(100);
    const auto longest_gap = draw(0, 1) != 0 ? a_window.count() / 32 : tick.count() * 1'000'000 / 4;
    auto looked = slow_from;
    while (window.behind_at(static_cast<std::size_t>(rate)) > looked && looked < slow_from + 10 * a_window) {
      looked += tick;
      while (now < looked) {
        const Nanoseconds gap(draw(1, longest_gap));
        now += gap;
        window.add(now, static_cast<std::size_t>(most_share * static_cast<double>(rate) * metrics::seconds(gap)));
      }
    }
    EXPECT_LE(looked, std::max(slow_from + a_step, begun) + a_window + 2 * tick + a_window / 32) << "seed " << seed;
  }
}

}  // namespace

// Whose body ends where memory is spent, and what one address holds of it.

namespace {

struct Body final : Upload {
  Body(Uploads& all, std::uint64_t bytes_lately, std::size_t bytes_held, bool young = false)
      : lately(bytes_lately), holds(bytes_held), fresh(young) {
    all.attach(*this);
  }
  std::uint64_t recent(metrics::Moment) override { return lately; }
  std::size_t reserved() const override { return holds; }
  bool is_head() const override { return head; }
  bool is_new(metrics::Moment) const override { return fresh; }
  void give_way() override {
    ended = true;
    holds = 0;
  }
  std::uint64_t lately;
  std::size_t holds;
  bool fresh, ended = false, head = false;
};

TEST(Uploads, EndTheSlowestThatHoldsAnything) {
  Uploads all;
  Body fast(all, 1000, 10), slow(all, 10, 10), stands(all, 0, 0);
  EXPECT_TRUE(all.make_room(&fast, {}));
  EXPECT_TRUE(slow.ended);
  EXPECT_FALSE(fast.ended || stands.ended);
  EXPECT_FALSE(all.make_room(&fast, {})) << "nobody else holds anything";
  EXPECT_TRUE(all.make_room(nullptr, {}));
  EXPECT_TRUE(fast.ended);
}

TEST(Uploads, EndNoBodyWhereAHeadIsToMakeRoom) {
  Uploads all;
  Body body(all, 0, 20), head(all, 1000, 10);
  EXPECT_FALSE(all.make_room(nullptr, {}, Uploads::Of::heads));
  head.head = true;
  EXPECT_TRUE(all.make_room(nullptr, {}, Uploads::Of::heads));
  EXPECT_TRUE(head.ended && !body.ended);
}

TEST(Uploads, EndOfTwoEqualsTheOneThatHoldsMore) {
  Uploads all;
  Body little(all, 0, 10), much(all, 0, 20), some(all, 0, 15);
  EXPECT_TRUE(all.make_room(nullptr, {}));
  EXPECT_TRUE(much.ended && !little.ended && !some.ended);
}

TEST(Uploads, EndNobodyForOneThatIsSlowerItself) {
  for (const bool young : {false, true}) {
    Uploads all;
    Body slow(all, 1, 10, young), fast(all, 2, 10);
    EXPECT_EQ(all.make_room(&slow, {}), young) << "whoever has just come has had no time to be fast";
    EXPECT_EQ(fast.ended, young);
    EXPECT_FALSE(slow.ended);
  }
}

TEST(Uploads, SpareWhoHasJustComeWhileAnOlderOneHoldsAnything) {
  Uploads all;
  Body first(all, 0, 10, true), old(all, 1000, 10), second(all, 0, 20, true);
  EXPECT_TRUE(all.make_room(nullptr, {}));
  EXPECT_TRUE(old.ended);
  EXPECT_TRUE(all.make_room(nullptr, {}));
  EXPECT_TRUE(second.ended && !first.ended);
}

TEST(Uploads, ForgetThoseThatHaveGone) {
  Uploads all;
  {
    const Body gone(all, 0, 10);
    EXPECT_FALSE(all.empty());
  }
  EXPECT_TRUE(all.empty());
  EXPECT_FALSE(all.make_room(nullptr, {}));
}

TEST(SharedBudgetHold, CountsForTheBudgetAndForEachShare) {
  constexpr std::size_t step = BufferBudget::step;
  BufferBudget budget(8 * step);
  AddressShares addresses;
  const PeerAddress one{1};
  {
    SharedBudgetHold first(budget), second(budget);
    first.set(2 * step);
    first.join(addresses.of(one));
    second.join(addresses.of(one));
    second.set(3 * step);
    EXPECT_EQ(*addresses.of(one), 5 * step);
    EXPECT_EQ(second.full_share(4 * step, 6 * step), nullptr);
    EXPECT_EQ(second.full_share(5 * step, 6 * step), addresses.of(one));
    EXPECT_EQ(second.full_share(3 * step, step), nullptr) << "what is held may stay";
    EXPECT_FALSE(second.try_set(7 * step)) << "the budget has no more";
    EXPECT_EQ(*addresses.of(one), 5 * step);
    first.less(step);
    EXPECT_EQ(*addresses.of(one), 4 * step);
    auto moved = std::move(second);
    first = std::move(moved);
    EXPECT_EQ(*addresses.of(one), 3 * step);
    EXPECT_EQ(budget.used(), 3 * step);
    EXPECT_EQ(addresses.size(), 1u);
  }
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(addresses.size(), 0u);
}

}  // namespace
}  // namespace weir::proxy::net
