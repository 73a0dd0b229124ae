// Turns of the poller: of tokens, of sockets that are ready, and of those that ask for another turn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "tests/unit/proxy/net/polling.hpp"

namespace weir::proxy::net {
namespace {

using testing::ElementsAre;

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

}  // namespace
}  // namespace weir::proxy::net
