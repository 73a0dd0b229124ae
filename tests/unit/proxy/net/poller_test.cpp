#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "proxy/net/poller.hpp"
#include "tests/unit/proxy/net/polling.hpp"

namespace weir::proxy::net {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(Polling, TellsAnEdgeOnce) {
  const Pair pair;
  Poller::Registration registration(poller, pair.near.get());
  registration.attach(watcher, 7);
  poll();
  EXPECT_THAT(watcher.told, ElementsAre(std::pair(7u, std::uint32_t{EPOLLOUT})));
  poll();
  EXPECT_EQ(watcher.told.size(), 1u);
  pair.says("x");
  poll();
  ASSERT_EQ(watcher.told.size(), 2u);
  EXPECT_NE(watcher.told.back().second & EPOLLIN, 0u);
  poll();
  EXPECT_EQ(watcher.told.size(), 2u) << "nothing came since, though nothing was read";
  pair.says("y");
  poll();
  EXPECT_EQ(watcher.told.size(), 3u);
}

TEST_F(Polling, NotesWhatNobodyWatches) {
  Pair pair;
  Poller::Registration registration(poller, pair.near.get());
  pair.says("x");
  poll();
  EXPECT_NE(registration.noted() & EPOLLIN, 0u);
  registration.use_up(EPOLLIN);
  EXPECT_EQ(registration.noted() & EPOLLIN, 0u);
  EXPECT_NE(registration.noted() & EPOLLOUT, 0u) << "the rest stays noted";
  registration.attach(watcher, 0);
  poll();
  EXPECT_THAT(watcher.told, IsEmpty());
  registration.detach();
  pair.far.reset();
  poll();
  EXPECT_THAT(watcher.told, IsEmpty());
  EXPECT_NE(registration.noted() & EPOLLRDHUP, 0u);
}

TEST_F(Polling, KeepsItsRegistrationFromWatcherToWatcher) {
  const Pair pair;
  Poller::Registration registration(poller, pair.near.get());
  Noting other;
  registration.attach(watcher, 1);
  registration.attach(other, 2);
  poll();
  EXPECT_THAT(watcher.told, IsEmpty());
  EXPECT_THAT(other.told, ElementsAre(std::pair(2u, std::uint32_t{EPOLLOUT})));
}

TEST_F(Polling, DropsEventsOfARegistrationThatEndedInTheSameBatch) {
  const Pair one, other;
  Noting next;
  std::optional<Poller::Registration> a, b, successor;
  a.emplace(poller, one.near.get());
  b.emplace(poller, other.near.get());
  // Whoever is told first ends the other, and a third takes its slot.
  const Pair third;
  Noting first, second;
  const auto end = [&](std::optional<Poller::Registration>& registration) {
    registration.reset();
    successor.emplace(poller, third.near.get());
    successor->attach(next, 9);
  };
  first.then = [&] {
    if (b && !successor) end(b);
  };
  second.then = [&] {
    if (a && !successor) end(a);
  };
  a->attach(first, 1);
  b->attach(second, 2);
  one.says("x");
  other.says("x");
  // The context runs one handler, so both came in one batch.
  EXPECT_EQ(context.poll_one(), 1u);
  EXPECT_EQ(first.told.size() + second.told.size(), 1u);
  EXPECT_THAT(next.told, IsEmpty()) << "it was told of another's event";
  EXPECT_EQ(successor->noted(), 0u);
  poll();
  EXPECT_THAT(next.told, ElementsAre(std::pair(9u, std::uint32_t{EPOLLOUT})));
}

TEST_F(Polling, TellsAgainAfterOthersHadTheirTurn) {
  const Pair pair;
  Poller::Registration registration(poller, pair.near.get());
  registration.attach(watcher, 3);
  poll();
  watcher.told.clear();
  registration.rearm(EPOLLIN);
  registration.rearm(EPOLLOUT);
  EXPECT_THAT(watcher.told, IsEmpty()) << "not within the call";
  poll();
  EXPECT_THAT(watcher.told, ElementsAre(std::pair(3u, std::uint32_t{EPOLLIN | EPOLLOUT})));
  poll();
  EXPECT_EQ(watcher.told.size(), 1u);
}

TEST_F(Polling, TellsAgainFromWithinAgain) {
  const Pair pair;
  Poller::Registration registration(poller, pair.near.get());
  registration.attach(watcher, 0);
  poll();
  watcher.told.clear();
  watcher.then = [&] {
    if (watcher.told.size() < 5) registration.rearm(EPOLLIN);
  };
  registration.rearm(EPOLLIN);
  poll();
  EXPECT_EQ(watcher.told.size(), 5u);
}

TEST_F(Polling, LeavesNothingOfARegistrationThatHasEndedToTheNextOneInItsPlace) {
  const Pair pair, later;
  std::optional<Poller::Registration> registration;
  registration.emplace(poller, pair.near.get());
  pair.says("x");
  poll();
  EXPECT_NE(registration->noted(), 0u);
  registration->rearm(EPOLLIN);
  registration.reset();
  registration.emplace(poller, later.near.get());
  EXPECT_EQ(registration->noted(), 0u);
  registration->attach(watcher, 0);
  poll();
  EXPECT_THAT(watcher.told, ElementsAre(std::pair(0u, std::uint32_t{EPOLLOUT})));
}

struct Late final : Deferred {
  void batch_ended() override {
    ++ended;
    if (then) then();
  }
  int ended = 0;
  std::function<void()> then;
};

TEST_F(Polling, DefersWorkToTheEndOfABatchAndOfEachTurn) {
  Crowd crowd(poller);
  std::deque<Late> late(crowd_size);
  poll();
  crowd.attach_all(watcher);
  EXPECT_FALSE(poller.defer(late[0])) << "no batch is under way";
  std::vector<std::size_t> told_at_end;
  for (std::uint32_t i = 0; i < crowd_size; ++i)
    late[i].then = [&, i] {
      told_at_end.push_back(watcher.told.size());
      EXPECT_FALSE(poller.defer(late[i])) << "the batch is over";
    };
  watcher.then = [&] { EXPECT_TRUE(poller.defer(late[watcher.told.back().first])); };
  crowd.all_say();
  poll();
  ASSERT_EQ(told_at_end.size(), crowd_size);
  for (const auto& one : late) EXPECT_EQ(one.ended, 1);
  for (std::size_t i = 0; i < crowd_size; ++i) {
    EXPECT_GT(told_at_end[i], i) << "work waits for its own watcher at least";
    EXPECT_LE(told_at_end[i], i + 16) << "and for one turn at most";
    EXPECT_EQ(told_at_end[i], told_at_end[told_at_end[i] - 1]) << "the work of a turn runs at its end, in a row";
  }
}

TEST_F(Polling, DoesNotRunDeferredWorkThatHasGone) {
  Pair pair;
  Poller::Registration registration(poller, pair.near.get());
  auto gone = std::make_unique<Late>();
  Late failing, last;
  std::size_t failures = 0;
  failing.then = [&] {
    gone.reset();
    throw std::runtime_error("one of many");
  };
  registration.attach(watcher, 0);
  watcher.then = [&] {
    for (Late* const one : {&failing, gone.get(), &last}) EXPECT_TRUE(poller.defer(*one));
  };
  for (int i = 0; i < 3; ++i) {
    try {
      poll();
    } catch (const std::runtime_error&) {
      ++failures;
    }
  }
  EXPECT_EQ(failing.ended, 1);
  EXPECT_EQ(last.ended, 1) << "a failure holds nobody else up";
  EXPECT_EQ(failures, 1u) << "the context's thread is thrown it";
}

TEST_F(Polling, NeedsNoMoreMemoryHoweverManyRegistrationsEnd) {
  const auto in_use = [] {
    const auto heap = ::mallinfo2();
    return heap.uordblks + heap.hblkhd;
  };
  {
    const Poller::Registration first(poller, -1);
  }
  const auto before = in_use();
  for (int i = 0; i < 10'000; ++i) const Poller::Registration next(poller, -1);
  EXPECT_LT(in_use(), before + 10'000);
}

TEST_F(Polling, TellsAllOfManyMoreThanOneBatch) {
  const std::vector<Pair> pairs(150);
  std::vector<std::unique_ptr<Poller::Registration>> registrations;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    registrations.push_back(std::make_unique<Poller::Registration>(poller, pairs[i].near.get()));
    registrations.back()->attach(watcher, static_cast<std::uint32_t>(i));
  }
  poll();
  std::vector<bool> told(pairs.size());
  for (const auto& [tag, events] : watcher.told) told[tag] = true;
  EXPECT_EQ(std::count(told.begin(), told.end(), true), 150);
}

TEST_F(Polling, BreaksADescriptorThatCannotBePolled) {
  const Poller::Registration registration(poller, -1);
  EXPECT_NE(registration.noted() & EPOLLERR, 0u);
}

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr metrics::Moment now{2h};
constexpr nanoseconds wall = 1'790'000'000s;

TEST(MonotonicTime, IsAsLongAgoAsTheStampOnTheWallClock) {
  for (const nanoseconds age : {0ns, 1ns, 999ns, 1'500'000ns, nanoseconds(1s), nanoseconds(10s)})
    EXPECT_EQ(monotonic_of(wall - age, wall, now), now - age) << age.count();
}

TEST(MonotonicTime, IsNowWhereTheStampCannotBeBelieved) {
  const struct {
    const char* what;
    nanoseconds stamp;
  } rows[]{{"from the future: the wall clock was set back", wall + 1ns},
           {"from a far future", wall + 1000h},
           {"older than any read can wait: the wall clock was set forward", wall - 10s - 1ns},
           {"of the epoch", 0ns}};
  for (const auto& row : rows) EXPECT_EQ(monotonic_of(row.stamp, wall, now), now) << row.what;
}

TEST(StampedTime, IsAsTheStampSaysWhileTheClocksGoOnTogether) {
  StampedTime time;
  for (const auto passed : {0ns, nanoseconds(1ms), nanoseconds(5s), nanoseconds(1h)})
    EXPECT_EQ(time.of(wall + passed - 3ms, {wall + passed, now + passed}), now + passed - 3ms);
  for (int second = 0; second < 1000; ++second) {  // The wall clock is slewed as fast as it may be.
    const nanoseconds passed = 1h + second * 1s, gained = second * 500us;
    EXPECT_EQ(time.of(wall + passed + gained - 3ms, {wall + passed + gained, now + passed}), now + passed - 3ms);
  }
}

TEST(StampedTime, NeverPutsAnAnswerBeforeItsRequestWhereTheWallClockIsSet) {
  for (const nanoseconds step : {nanoseconds(20ms), nanoseconds(2s), nanoseconds(9s), -nanoseconds(2s)}) {
    StampedTime time;
    EXPECT_EQ(time.of(wall, {wall, now}), now);
    const auto sent = now + 1s, read = now + 2s + 1ms;  // The clock is set just before this read.
    EXPECT_GE(time.of(wall + 2s, {wall + 2s + 1ms + step, read}), sent) << step.count();
    EXPECT_GE(time.of(wall + 2s, {wall + 2s + 2ms + step, read + 1ms}), sent) << "another that came before";
    EXPECT_EQ(time.of(wall + 5s + step, {wall + 5s + step, now + 5s}), now + 5s) << "what comes later is right";
    EXPECT_EQ(time.of(wall + 6s + step - 3ms, {wall + 6s + step, now + 6s}), now + 6s - 3ms);
  }
}

/// Both clocks show the time since one moment. Each reading takes the next of these times, 20 ns if there are no more.
struct ScriptedClocks {
  std::vector<nanoseconds> times;
  nanoseconds passed{0};
  std::size_t read = 0;
  nanoseconds tick() { return passed += read < times.size() ? times[read++] : (++read, 20ns); }
  BothClocks both() {
    return read_both(now, [this] { return wall + tick(); }, [this] { return now + tick(); });
  }
};

TEST(BothClocks, AreReadOnceIfNothingCameBetween) {
  ScriptedClocks clocks;
  const auto both = clocks.both();
  EXPECT_EQ(clocks.read, 2u);
  EXPECT_EQ(both.now - now, 40ns);
  EXPECT_EQ(both.wall - wall, 20ns);
}

TEST(BothClocks, AreReadAgainIfTheThreadLostItsProcessorBetween) {
  for (const auto& times :
       {std::vector<nanoseconds>{3ms}, {20ns, 3ms}, {20ns, 3ms, 20ns, 5ms}, {6us, 20ns, 20ns, 6us}}) {
    ScriptedClocks clocks{.times = times};
    const auto both = clocks.both();
    EXPECT_LE((both.now - now) - (both.wall - wall), 5us) << times.size();
    EXPECT_GE((both.now - now) - (both.wall - wall), 0ns);
  }
}

TEST(BothClocks, NeverMakeAStampEarlierThanItIs) {
  ScriptedClocks clocks{.times = std::vector<nanoseconds>(100, 3ms)};
  const auto both = clocks.both();
  EXPECT_EQ(clocks.read, 10u) << "a thread that never gets on goes on with what it has";
  EXPECT_GE(monotonic_of(wall, both.wall, both.now), now);
}

}  // namespace
}  // namespace weir::proxy::net
