#include "proxy/events/events.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "../said.hpp"

namespace weir::proxy::events {
namespace {

using ::testing::HasSubstr;

Event event(std::string text) { return {0, {}, Level::info, What::state, "gpu0", std::move(text)}; }

TEST(Events, AreNumberedAndTheLastThousandStay) {
  Ring ring;
  EXPECT_EQ(ring.since(0).last, 0u);
  EXPECT_TRUE(ring.since(0).events.empty());
  for (std::size_t i = 1; i <= Ring::most + 5; ++i) {
    ring.add(event(std::to_string(i)));
    const auto all = ring.since(0);
    ASSERT_EQ(all.last, i);
    ASSERT_EQ(all.first, i <= Ring::most ? 1 : i - Ring::most + 1);
    ASSERT_EQ(all.events.size(), std::min(i, Ring::most));
    ASSERT_EQ(all.events.back().text, std::to_string(i));
    ASSERT_EQ(all.events.front().seq, all.first);
  }
}

TEST(Events, SinceANumberAreThoseAfterIt) {
  Ring ring;
  for (std::size_t i = 1; i <= Ring::most + 100; ++i) ring.add(event("x"));
  const auto newest = ring.since(0).last;
  for (const std::uint64_t seq : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{99}, std::uint64_t{100},
                                  std::uint64_t{101}, newest - 1, newest}) {
    const auto since = ring.since(seq);
    EXPECT_EQ(since.missed + since.events.size(), newest - seq) << seq;
    if (!since.events.empty()) EXPECT_EQ(since.events.front().seq, std::max<std::uint64_t>(seq + 1, since.first));
  }
  EXPECT_EQ(ring.since(newest + 1).events.size(), Ring::most) << "another weir's number";
  EXPECT_EQ(ring.since(newest + 1).missed, ring.since(0).missed);
  const auto three = ring.since(0, 3);
  ASSERT_EQ(three.events.size(), 3u);
  EXPECT_EQ(three.events.front().seq, newest - 2);
}

TEST(Events, ALongTextIsCutBetweenCharacters) {
  Ring ring;
  std::string text(Ring::longest_text - 4, 'a');
  text += "\xC3\xA9\xC3\xA9\xC3\xA9";  // Three times e with an acute.
  ring.add(event(text));
  const auto cut = ring.since(0).events[0].text;
  EXPECT_EQ(cut, std::string(Ring::longest_text - 4, 'a') + "...");
  ring.add(event(std::string(Ring::longest_text, 'a')));
  EXPECT_EQ(ring.since(0).events[1].text.size(), Ring::longest_text);
}

TEST(Events, AreToldOnManyThreads) {
  Ring ring;
  std::vector<std::thread> tellers;
  for (int i = 0; i < 4; ++i)
    tellers.emplace_back([&ring] {
      for (int n = 0; n < 500; ++n) ring.add(event("x"));
    });
  for (std::uint64_t last = 0; last < 2000;) {
    const auto since = ring.since(last, Ring::most);
    for (std::size_t i = 1; i < since.events.size(); ++i)
      ASSERT_EQ(since.events[i].seq, since.events[i - 1].seq + 1);
    last = std::max(last, since.last);
  }
  for (auto& teller : tellers) teller.join();
  EXPECT_EQ(ring.since(0).last, 2000u);
}

TEST(Events, HaveTheWordsOfTheLog) {
  Said said;
  const auto before = ring().since(0).last;
  warn(What::state, "gpu1", "replica '{}' is {}, it was {}: {{}} stay", "gpu1", "down", "up");
  const auto told = ring().since(before).events;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].text, "replica 'gpu1' is down, it was up: {} stay");
  EXPECT_EQ(told[0].who, "gpu1");
  EXPECT_EQ(told[0].level, Level::warn);
  EXPECT_THAT(said.take(), HasSubstr("[warning] " + told[0].text + "\n"));
}

TEST(Events, AreThereThoughTheLogLeavesTheirLineOut) {
  Said said;
  spdlog::default_logger()->set_level(Level::warn);
  const auto before = ring().since(0).last;
  info(What::reload, "", "reload: nothing has changed");
  EXPECT_EQ(said.take(), "");
  EXPECT_EQ(ring().since(before).events.size(), 1u);
}

}  // namespace
}  // namespace weir::proxy::events
