#include "proxy/net/poller.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/unit/no_memory.hpp"

namespace weir::proxy::net {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Noting final : Watcher {
  void ready(std::uint32_t tag, std::uint32_t events) override {
    told.emplace_back(tag, events);
    if (then) then();
  }
  void prefetch(std::uint32_t, int) const override {}
  std::vector<std::pair<std::uint32_t, std::uint32_t>> told;
  std::function<void()> then;
};

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    near.reset(fds[0]);
    far.reset(fds[1]);
  }
  void says(std::string_view bytes) const {
    EXPECT_EQ(::send(far.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  UniqueFd near, far;
};

class Polling : public testing::Test {
 protected:
  Polling() { poller.start(context); }
  ~Polling() override { poller.stop(); }
  void poll() {
    while (context.poll() > 0) {
    }
  }
  Poller poller;
  boost::asio::io_context context{1};
  Noting watcher;
};

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

/// More than are told in one turn.
constexpr std::uint32_t crowd_size = 50, last_of_crowd = crowd_size - 1;

/// Registrations, each with a peer.
struct Crowd {
  explicit Crowd(Poller& poller) {
    for (std::uint32_t i = 0; i < crowd_size; ++i) registrations.emplace_back(poller, pairs[i].near.get());
  }
  void attach_all(Watcher& watcher) {
    for (std::uint32_t i = 0; i < crowd_size; ++i) registrations[i].attach(watcher, i);
  }
  void all_say() const {
    for (const auto& pair : pairs) pair.says("x");
  }
  std::array<Pair, crowd_size> pairs;
  std::deque<Poller::Registration> registrations;
};

TEST_F(Polling, TellsThoseThatAreHastenedBeforeOthersOfTheirBatch) {
  Crowd crowd(poller);
  poll();
  crowd.attach_all(watcher);
  for (const auto i : {7u, 12u, last_of_crowd}) crowd.registrations[i].prioritize();
  crowd.registrations[12].attach(watcher, 12);  // Whoever attaches later begins without it.
  crowd.all_say();
  poll();
  std::vector<std::uint32_t> order, wanted{7, last_of_crowd};
  for (const auto& [tag, events] : watcher.told) order.push_back(tag);
  for (std::uint32_t i = 0; i < last_of_crowd; ++i)
    if (i != 7) wanted.push_back(i);
  EXPECT_EQ(order, wanted) << "the rest keep their order";
}

/// A registration to which tokens come.
struct Stream {
  explicit Stream(Poller& poller) : registration(poller, pair.near.get()) {
    registration.attach(tokens, 0);
    registration.prioritize();
  }
  const Pair pair;
  Noting tokens;
  Poller::Registration registration;
};

TEST_F(Polling, TellsAHastenedOneThatComesWhileTheRestWaitsAndGivesEachThatAskedForItATurnOfItsOwn) {
  for (const bool asked : {false, true}) {
    Crowd crowd(poller);
    Stream stream(poller);
    Noting others;
    poll();
    stream.tokens.told.clear();
    crowd.attach_all(others);
    std::size_t told_before_the_token = 0;
    others.then = [&] {
      if (others.told.size() == 1) stream.pair.says("x");
    };
    stream.tokens.then = [&] { told_before_the_token = others.told.size(); };
    if (!asked) crowd.all_say();
    for (auto& one : crowd.registrations)
      if (asked) one.rearm(EPOLLIN);
    poll();
    EXPECT_EQ(others.told.size(), crowd_size);
    EXPECT_EQ(stream.tokens.told.size(), 1u);
    EXPECT_GT(told_before_the_token, 0u);
    // The context looks at its sockets once between two handlers.
    EXPECT_LE(told_before_the_token, asked ? 2u : last_of_crowd);
  }
}

TEST_F(Polling, TellsTokensThatABatchHadNoPlaceForBeforeOthers) {
  Crowd others(poller);
  std::deque<Stream> streams;
  for (std::size_t i = 0; i < 200; ++i) streams.emplace_back(poller);
  poll();
  others.attach_all(watcher);
  std::size_t tokens = 0, tokens_before_others = 0;
  for (auto& stream : streams) stream.tokens.then = [&] { ++tokens; };
  watcher.then = [&] {
    if (watcher.told.size() == 1) tokens_before_others = tokens;
  };
  // The others let the tokens of every round go first, though not for ever: see the next test.
  for (int round = 0; round < 10; ++round) {
    tokens = tokens_before_others = 0;
    watcher.told.clear();
    others.all_say();
    for (const auto& stream : streams) stream.pair.says("x");
    poll();
    EXPECT_EQ(tokens_before_others, streams.size()) << "round " << round;
    EXPECT_EQ(watcher.told.size(), others.pairs.size());
  }
}

TEST_F(Polling, LetsTokensWaitForFewOthersHoweverManyThereAre) {
  const std::vector<Pair> pairs(300);
  std::deque<Poller::Registration> registrations;
  for (const auto& pair : pairs) registrations.emplace_back(poller, pair.near.get()).attach(watcher, 0);
  Stream stream(poller);
  poll();
  watcher.told.clear();
  std::size_t told_then = 0, most = 0;
  stream.tokens.then = [&] {
    most = std::max(most, watcher.told.size() - told_then);
    told_then = watcher.told.size();
    if (told_then < pairs.size()) stream.pair.says("y");
  };
  for (const auto& pair : pairs) pair.says("x");
  stream.pair.says("x");
  poll();
  EXPECT_EQ(watcher.told.size(), pairs.size());
  EXPECT_LE(most, 32u) << "two turns, because the context looks at its sockets after every second handler";
}

TEST_F(Polling, GivesOthersTheirTurnHoweverManyTokensCome) {
  Crowd others(poller);
  std::deque<Stream> streams;
  for (std::size_t i = 0; i < 80; ++i) streams.emplace_back(poller);
  poll();
  others.attach_all(watcher);
  std::size_t left = 100'000;
  for (auto& stream : streams) {
    stream.tokens.then = [&] {
      if (!watcher.told.empty() || --left == 0) return;
      stream.pair.says("y");
    };
  }
  others.all_say();
  for (const auto& stream : streams) stream.pair.says("x");
  poll();
  EXPECT_EQ(watcher.told.size(), others.pairs.size());
  EXPECT_GT(left, 90'000u) << "while tokens keep coming";
}

TEST_F(Polling, HastensNobodyWhoWaitsForAnotherTurn) {
  Crowd crowd(poller);
  poll();
  crowd.attach_all(watcher);
  crowd.registrations[3].prioritize();
  for (const auto i : {5u, 6u, 3u}) crowd.registrations[i].rearm(EPOLLPRI);
  watcher.then = [&] {
    if (watcher.told.size() == 1) crowd.pairs[3].says("x");
  };
  poll();
  ASSERT_EQ(watcher.told.size(), 3u) << "what comes while it waits is told in its turn, and not twice";
  EXPECT_EQ(watcher.told.back().first, 3u);
  EXPECT_EQ(watcher.told.back().second & (EPOLLPRI | EPOLLIN), std::uint32_t{EPOLLPRI | EPOLLIN});
  crowd.pairs[3].says("y");
  poll();
  EXPECT_EQ(watcher.told.size(), 4u) << "after its turn it is as before";
}

TEST_F(Polling, GivesAllTheirTurnBeforeAnyHasASecond) {
  Crowd crowd(poller);
  poll();
  crowd.attach_all(watcher);
  // A session that finds bytes noted asks for its turn, though its turn is coming anyway.
  watcher.then = [&] {
    if (watcher.told.size() == 1)
      for (std::uint32_t i = 0; i < crowd_size; ++i)
        if (i != watcher.told.front().first) crowd.registrations[i].rearm(EPOLLPRI);
    if (watcher.told.size() == 8) crowd.pairs[watcher.told.front().first].says("y");
  };
  crowd.all_say();
  poll();
  ASSERT_EQ(watcher.told.size(), crowd_size + 1) << "the first of them has two turns, and all others one";
  std::vector<std::uint32_t> tags;
  for (const auto& [tag, events] : watcher.told) tags.push_back(tag);
  EXPECT_EQ(tags.back(), tags.front());
  EXPECT_EQ(std::set<std::uint32_t>(tags.begin(), tags.end() - 1).size(), crowd_size);
  for (std::size_t i = 1; i < crowd_size; ++i)
    EXPECT_EQ(watcher.told[i].second & (EPOLLPRI | EPOLLIN), std::uint32_t{EPOLLPRI | EPOLLIN}) << i;
}

TEST_F(Polling, TellsALaterEventTogetherWithTheOneThatWaits) {
  Crowd crowd(poller);
  poll();
  crowd.attach_all(watcher);
  watcher.then = [&] {
    if (watcher.told.size() == 1) crowd.pairs[last_of_crowd].far.reset();
  };
  crowd.all_say();
  poll();
  ASSERT_EQ(watcher.told.size(), crowd_size);
  EXPECT_EQ(watcher.told.back().first, last_of_crowd);
  EXPECT_NE(watcher.told.back().second & EPOLLRDHUP, 0u);
}

TEST_F(Polling, LeavesNoTurnToWhoTakesThePlaceOfOneThatWaits) {
  Crowd crowd(poller);
  poll();
  crowd.attach_all(watcher);
  const Pair later;
  Noting next;
  std::optional<Poller::Registration> successor;
  watcher.then = [&] {
    if (watcher.told.size() != 1) return;
    crowd.registrations.pop_back();
    successor.emplace(poller, later.near.get());
    successor->attach(next, crowd_size);
  };
  crowd.all_say();
  poll();
  EXPECT_EQ(watcher.told.size(), last_of_crowd);
  EXPECT_THAT(next.told, ElementsAre(std::pair(crowd_size, std::uint32_t{EPOLLOUT})));
  later.says("x");
  poll();
  EXPECT_EQ(next.told.size(), 2u) << "the place is as a new one";
}

TEST_F(Polling, NotesAtOnceWhatIsToldLater) {
  Crowd crowd(poller);
  poll();
  for (auto& registration : crowd.registrations) registration.use_up(EPOLLIN);
  crowd.attach_all(watcher);
  bool noted = false;
  watcher.then = [&] {
    if (watcher.told.size() == 1) noted = (crowd.registrations[last_of_crowd].noted() & EPOLLIN) != 0;
  };
  crowd.all_say();
  poll();
  EXPECT_TRUE(noted);
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

#ifndef WEIR_SANITIZED
/// Counts without taking memory, and asks for one more turn.
struct Counting final : Watcher {
  void ready(std::uint32_t tag, std::uint32_t events) override {
    if ((events & EPOLLIN) == 0) return;
    if (++told[tag] > 1 || tag % 2 == 0) return;
    try {
      (*registrations)[tag].rearm(EPOLLIN);
      again[tag] = true;
    } catch (const std::bad_alloc&) {
    }
  }
  void prefetch(std::uint32_t, int) const override {}
  std::array<int, crowd_size> told{};
  std::array<bool, crowd_size> again{};
  std::deque<Poller::Registration>* registrations = nullptr;
};

/// Whichever allocation fails, every socket is told of what came, in this batch and in the one after it. The batch
/// before it has filled most of a block of each queue, so that each of them needs another one.
TEST_F(Polling, LosesNoEdgeForWantOfMemory) {
  bool failed = true;
  for (std::size_t nth = 0; failed; ++nth) {
    Poller own;
    boost::asio::io_context loop{1};
    own.start(loop);
    {
      Crowd crowd(own);
      while (loop.poll() > 0) {
      }
      Counting counting;
      counting.registrations = &crowd.registrations;
      for (std::uint32_t i = 0; i < crowd_size; ++i) {
        crowd.registrations[i].attach(counting, i);
        if (i % 5 == 0) crowd.registrations[i].prioritize();
      }
      for (const int batch : {0, 1, 2}) {
        counting.told = {};
        counting.again = {};
        crowd.all_say();
        if (batch == 1) no_memory::fail_at(nth);
        for (std::size_t ran = 1; ran > 0;) {
          try {
            ran = loop.poll();
          } catch (const std::bad_alloc&) {
          }
        }
        if (batch == 1) failed = no_memory::has_failed();
        for (std::uint32_t i = 0; i < crowd_size; ++i)
          ASSERT_EQ(counting.told[i], counting.again[i] ? 2 : 1) << "socket " << i << ", allocation " << nth;
      }
    }
    own.stop();
    ASSERT_LT(nth, 1000u);
  }
}

TEST_F(Polling, IsAskedForAnotherTurnAsIfForTheFirstTimeAfterAWantOfMemory) {
  const Pair pair;
  Poller::Registration registration(poller, pair.near.get());
  registration.attach(watcher, 3);
  poll();
  watcher.told.clear();
  no_memory::fail_at(0);
  EXPECT_THROW(registration.rearm(EPOLLIN), std::bad_alloc);
  EXPECT_TRUE(no_memory::has_failed());
  poll();
  EXPECT_THAT(watcher.told, IsEmpty());
  registration.rearm(EPOLLOUT);
  poll();
  EXPECT_THAT(watcher.told, ElementsAre(std::pair(3u, std::uint32_t{EPOLLOUT})));
}
#endif

TEST_F(Polling, NeedsNoMoreMemoryHoweverManyRegistrationsEnd) {
  const auto in_use = [] {
    const auto heap = ::mallinfo2();
    return heap.uordblks + heap.hblkhd;
  };
  { const Poller::Registration first(poller, -1); }
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

}  // namespace
}  // namespace weir::proxy::net
