#include "proxy/net/deadline.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

namespace weir::proxy::net {
namespace {

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

TEST(Deadlines, PassOnceTheyAreReached) {
  Deadlines deadlines;
  Waiting waiting;
  deadlines.attach(waiting);
  deadlines.tick(at(9));
  EXPECT_TRUE(waiting.passed.empty());
  deadlines.tick(at(10));
  EXPECT_EQ(waiting.passed, std::vector{at(10)});
}

TEST(Deadlines, AreMovedByWritingThem) {
  Deadlines deadlines;
  Waiting waiting;
  deadlines.attach(waiting);
  waiting.due = at(20);
  deadlines.tick(at(19));
  EXPECT_TRUE(waiting.passed.empty());
  waiting.due = Moment::max();
  deadlines.tick(at(1'000'000));
  EXPECT_TRUE(waiting.passed.empty());
  waiting.due = at(5);
  deadlines.tick(at(1'000'000));
  EXPECT_EQ(waiting.passed.size(), 1u);
}

TEST(Deadlines, AreToldOnceATickAndAgainWhereTheyStayReached) {
  Deadlines deadlines;
  Waiting waiting;
  deadlines.attach(waiting);
  deadlines.tick(at(11));
  deadlines.tick(at(12));
  EXPECT_EQ(waiting.passed, (std::vector{at(11), at(12)}));
}

TEST(Deadlines, ForgetWhatHasGone) {
  Deadlines deadlines;
  {
    Waiting gone;
    deadlines.attach(gone);
    deadlines.tick(at(1));
  }
  deadlines.tick(at(100));
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

}  // namespace
}  // namespace weir::proxy::net
