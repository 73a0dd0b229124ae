#include <gtest/gtest.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "proxy/net/completion.hpp"

namespace weir::proxy::net {
namespace {

TEST(Completion, TellsWhatIsKeptOnce) {
  Completion<int> completion;
  EXPECT_FALSE(completion);
  std::vector<int> told;
  completion.keep([&](int news) { told.push_back(news); });
  EXPECT_TRUE(completion);
  completion.resume(1);
  EXPECT_FALSE(completion);
  EXPECT_EQ(told, std::vector{1});
}

TEST(Completion, MayBeKeptAnewByWhoIsTold) {
  Completion<int> completion;
  std::vector<int> told;
  completion.keep([&](int news) {
    told.push_back(news);
    completion.keep([&](int next) { told.push_back(10 * next); });
  });
  completion.resume(1);
  ASSERT_TRUE(completion) << "the handler of the next operation is lost";
  completion.resume(2);
  EXPECT_EQ(told, (std::vector{1, 20}));
}

TEST(Completion, TellsLaterFromItsExecutor) {
  boost::asio::io_context context;
  Completion<int> completion;
  std::vector<int> told;
  completion.keep(boost::asio::bind_executor(context, [&](int news) { told.push_back(news); }));
  completion.tell(3);
  EXPECT_TRUE(told.empty());
  EXPECT_FALSE(completion);
  context.poll();
  EXPECT_EQ(told, std::vector{3});
}

TEST(Completion, GoesWithItsOwner) {
  std::vector<int> told;
  const auto alive = std::make_shared<int>(0);
  {
    Completion<int> first;
    first.keep([&, alive](int news) { told.push_back(news); });
    Completion<int> second(std::move(first));
    EXPECT_FALSE(first);
    first.keep([&, alive](int news) { told.push_back(10 * news); });
    first = std::move(second);
    EXPECT_EQ(alive.use_count(), 2) << "the handler before is gone";
    EXPECT_FALSE(second);
    first.resume(1);
    EXPECT_EQ(alive.use_count(), 1);
    second.keep([alive](int) {});
  }
  EXPECT_EQ(told, std::vector{1});
  EXPECT_EQ(alive.use_count(), 1);
}

using metrics::Moment;

Moment at(int seconds) { return Moment(std::chrono::seconds(seconds)); }

struct Waiting final : Timed {
  explicit Waiting(Moment when = at(10)) : due(when) {}
  Moment deadline() const override { return due; }
  void deadline_passed(Moment now) override {
    passed.push_back(now);
    if (then) then();
  }

  Moment due;
  std::vector<Moment> passed;
  std::function<void()> then;
};

TEST(Deadlines, PassOnceTheyAreReachedAndAreMovedByWritingThem) {
  Deadlines deadlines;
  Waiting waiting;
  deadlines.attach(waiting);
  deadlines.tick(at(9));
  EXPECT_TRUE(waiting.passed.empty());
  deadlines.tick(at(10));
  deadlines.tick(at(11));
  EXPECT_EQ(waiting.passed, (std::vector{at(10), at(11)})) << "again where they stay reached";
  for (const auto due : {at(20), Moment::max()}) {
    waiting.due = due;
    deadlines.tick(due == at(20) ? at(19) : at(1'000'000));
  }
  EXPECT_EQ(waiting.passed.size(), 2u);
}

/// Three are due at once, and each destroys what `whom` says when it is told.
void destroy_in_passing(const std::vector<std::size_t>& destroyers, const std::vector<std::size_t>& victims) {
  Deadlines deadlines;
  std::vector<std::unique_ptr<Waiting>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(std::make_unique<Waiting>());
    deadlines.attach(*all.back());
  }
  int told = 0;
  std::vector<bool> gone(3, false), reached(3, false);
  for (std::size_t i = 0; i < 3; ++i)
    all[i]->then = [&, i] {
      EXPECT_FALSE(gone[i]);
      reached[i] = true;
      ++told;
      for (std::size_t d = 0; d < destroyers.size(); ++d) {
        if (destroyers[d] != i || gone[victims[d]]) continue;
        gone[victims[d]] = true;
        // A handler that destroys itself may still be running in the function object it owns.
        auto running = victims[d] == i ? std::move(all[i]->then) : nullptr;
        all[victims[d]].reset();
        if (running) return;
      }
    };
  deadlines.tick(at(10));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(reached[i] || gone[i]) << i;
  told = 0;
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < 3; ++i)
    if (all[i]) all[i]->then = [&told] { ++told; }, left.push_back(i);
  deadlines.tick(at(11));
  EXPECT_EQ(told, static_cast<int>(left.size())) << "those that are left are still in the list, once";
}

TEST(Deadlines, MayDestroyThemselvesAndEachOther) {
  for (std::size_t a = 0; a < 3; ++a)
    for (std::size_t b = 0; b < 3; ++b)
      for (std::size_t c = 0; c < 3; ++c) {
        SCOPED_TRACE(std::to_string(a) + std::to_string(b) + std::to_string(c));
        destroy_in_passing({0, 1, 2}, {a, b, c});
      }
  destroy_in_passing({0, 0, 0}, {1, 2, 0});
  destroy_in_passing({1, 1, 1}, {0, 2, 1});
}

TEST(Deadlines, MayTakeInNewOnesWhichHaveTheirTurnAtTheNextTick) {
  Deadlines deadlines;
  Waiting first, second(at(1));
  first.then = [&] {
    if (!second.is_linked()) deadlines.attach(second);
  };
  deadlines.attach(first);
  deadlines.tick(at(10));
  EXPECT_TRUE(second.passed.empty());
  deadlines.tick(at(11));
  EXPECT_EQ(second.passed, std::vector{at(11)});
}

TEST(Deadlines, ThatAnotherOneHasPutOffInTheMeantimeAreNotReached) {
  Deadlines deadlines;
  Waiting first, second;
  first.then = [&] { second.due = at(20); };
  second.then = [&] { first.due = at(20); };
  deadlines.attach(first);
  deadlines.attach(second);
  deadlines.tick(at(10));
  EXPECT_EQ(first.passed.size() + second.passed.size(), 1u);
}

constexpr std::size_t portion = Deadlines::handled_at_once;

TEST(Deadlines, ThatAreReachedTogetherAreHandledInPortions) {
  Deadlines deadlines;
  std::vector<Waiting> all(10 * portion + 3);
  std::size_t told = 0;
  for (auto& one : all) {
    one.then = [&told] { ++told; };
    deadlines.attach(one);
  }
  std::size_t portions = 1;
  for (bool more = deadlines.tick(at(10)); more; more = deadlines.go_on(at(10)), ++portions)
    EXPECT_EQ(told, portions * portion);
  EXPECT_EQ(portions, 11u);
  EXPECT_EQ(told, all.size());
  for (const auto& one : all) EXPECT_EQ(one.passed.size(), 1u) << "nobody is told twice in a round";
}

TEST(Deadlines, ThatAreNotReachedAreLookedAtInPortionsToo) {
  Deadlines deadlines;
  struct Looked final : Timed {
    Moment deadline() const override { return ++looks, Moment::max(); }
    void deadline_passed(Moment) override {}
    mutable int looks = 0;
  };
  std::vector<Looked> all(3 * Deadlines::looked_at_at_once);
  for (auto& one : all) deadlines.attach(one);
  const auto looks = [&all] {
    std::size_t sum = 0;
    for (const auto& one : all) sum += static_cast<std::size_t>(one.looks);
    return sum;
  };
  EXPECT_TRUE(deadlines.tick(at(10)));
  EXPECT_EQ(looks(), Deadlines::looked_at_at_once);
  while (deadlines.go_on(at(10))) {
  }
  EXPECT_EQ(looks(), all.size());
}

TEST(Deadlines, BeginNoRoundWhileOneIsUnderWay) {
  Deadlines deadlines;
  std::vector<Waiting> all(3 * portion);
  for (auto& one : all) deadlines.attach(one);
  EXPECT_TRUE(deadlines.tick(at(10)));
  EXPECT_FALSE(deadlines.tick(at(11))) << "whoever began the round goes on with it";
  EXPECT_TRUE(deadlines.go_on(at(12)));
  EXPECT_FALSE(deadlines.go_on(at(13)));
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i].passed, std::vector{at(i < portion ? 10 : i < 2 * portion ? 12 : 13)});
}

/// Between portions and in handlers, objects go, come, are put off and are reached, at random. In every round each
/// object that is there from its begin to its end, and stays reached, is told exactly once, and none that has gone is.
TEST(Deadlines, HandleEachOnceARoundWhateverHappensMeanwhile) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    struct One final : Timed {
      Moment deadline() const override { return due; }
      void deadline_passed(Moment) override {
        ++told;
        then();
      }
      Moment due{};
      int told = 0;
      bool old = false, touched = false;
      std::function<void()> then = [] {};
    };
    Deadlines deadlines;
    std::vector<std::unique_ptr<One>> all;
    One* running = nullptr;
    const auto change = [&] {
      if (all.empty()) return;
      auto& one = all[below(all.size())];
      switch (below(3)) {
        case 0:
          if (one.get() != running) one.reset(), std::swap(one, all.back()), all.pop_back();
          break;
        case 1:
          one->due = at(1'000'000);
          one->touched = true;
          break;
        default:
          if (one->due > at(10)) one->due = at(0), one->touched = true;
      }
    };
    const auto add = [&] {
      auto& one = all.emplace_back(std::make_unique<One>());
      one->then = [&, self = one.get()] {
        running = self;
        if (below(3) == 0) change();
        running = nullptr;
      };
      deadlines.attach(*one);
    };
    for (std::size_t n = 1 + below(20 * portion); n > 0; --n) add();
    for (int round = 0; round < 5; ++round) {
      for (auto& one : all) one->told = 0, one->old = true, one->touched = false;
      for (bool more = deadlines.tick(at(10)); more; more = deadlines.go_on(at(10))) {
        if (below(2) == 0) change();
        if (below(2) == 0) add();
      }
      for (const auto& one : all) {
        EXPECT_LE(one->told, one->old ? 1 : 0) << "what came meanwhile has its turn in the next round";
        if (one->old && !one->touched) {
          EXPECT_EQ(one->told, one->due <= at(10) ? 1 : 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace weir::proxy::net
