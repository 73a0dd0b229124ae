#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include "proxy/serve/arrivals.hpp"

namespace weir::proxy::serve {
namespace {

TEST(Arrivals, StartsAFewInATurnOfTheLoop) {
  boost::asio::io_context loop{1};
  std::size_t started = 0, before_the_token = 0;
  Arrivals arrivals(loop, [&](NewClient) { ++started; });
  for (std::size_t i = 0; i < 3 * Arrivals::at_once + 1; ++i) arrivals.add(NewClient());
  boost::asio::post(loop, [&] { before_the_token = started; });
  loop.poll();
  EXPECT_EQ(before_the_token, Arrivals::at_once);
  EXPECT_EQ(started, 3 * Arrivals::at_once + 1);
  arrivals.add(NewClient());
  loop.restart();
  loop.poll();
  EXPECT_EQ(started, 3 * Arrivals::at_once + 2) << "one that comes when all have started";
}

TEST(Arrivals, StartsAllThatAnotherThreadHandsOver) {
  constexpr std::size_t all = 1000;
  boost::asio::io_context loop{1};
  std::size_t started = 0;
  auto work = boost::asio::make_work_guard(loop);
  Arrivals arrivals(loop, [&](NewClient) {
    if (++started == all) work.reset();
  });
  std::thread control([&] {
    for (std::size_t i = 0; i < all; ++i) arrivals.add(NewClient());
  });
  loop.run();
  control.join();
  EXPECT_EQ(started, all);
}

TEST(Arrivals, OneThatCannotBeStartedTakesNoOtherAlong) {
  boost::asio::io_context loop{1};
  std::size_t tried = 0, failures = 0;
  Arrivals arrivals(loop, [&](NewClient) {
    if (tried++ % 3 == 0) throw std::runtime_error("a test");
  });
  constexpr std::size_t all = 2 * Arrivals::at_once + 1;
  for (std::size_t i = 0; i < all; ++i) arrivals.add(NewClient());
  for (bool over = false; !over;) {
    try {
      loop.run();
      over = true;
    } catch (const std::runtime_error&) {
      ++failures;
    }
  }
  EXPECT_EQ(tried, all);
  EXPECT_EQ(failures, 2u) << "the loop is told of each turn that failed";
}

class Placement : public testing::Test {
 protected:
  Placement() {
    for (std::size_t i = 0; i < 3; ++i) loops.push_back(std::make_unique<exchange::Loop>(shared, i));
  }
  /// The index of the loop that gets the next connection; -1: none does.
  int place(std::size_t most = 1000) {
    auto count = place_connection(shared, loops, most);
    const auto* const loop = count.loop();
    if (loop == nullptr) return -1;
    placed.push_back(std::move(count));
    return static_cast<int>(loop->index);
  }
  void leave(std::size_t loop) { placed.erase(std::ranges::find(placed, loops[loop].get(), &ConnectionCount::loop)); }

  static config::Settings settings() {
    config::Settings settings;
    settings.pools.resize(1);
    return settings;
  }
  metrics::series::Exposition exposition{3, {"test", "test"}};
  fleet::Fleet fleet{settings(), exposition, 1};
  metrics::record::RequestLog log{"", "test"};
  fleet::ModelDirectory models{fleet};
  exchange::Shared shared{exposition, fleet, log, models};
  std::vector<std::unique_ptr<exchange::Loop>> loops;
  std::vector<ConnectionCount> placed;
};

TEST_F(Placement, SpreadsConnectionsThatComeBeforeTheirFirstRequest) {
  for (int i = 0; i < 30; ++i) place();
  for (const auto& loop : loops) EXPECT_EQ(loop->connections, 10u);
  EXPECT_EQ(shared.connections, 30u);
}

TEST_F(Placement, CountsAStreamAsFourConnections) {
  loops[0]->streams = 1;
  loops[1]->connections = 3;
  loops[2]->connections = 5;
  EXPECT_EQ(place(), 1);
  EXPECT_EQ(place(), 0);
  EXPECT_EQ(place(), 1);
  EXPECT_EQ(place(), 0);
  loops[1]->streams = 7;
  EXPECT_EQ(place(), 2);
}

TEST_F(Placement, RefusesTheFirstConnectionBeyondTheLimit) {
  EXPECT_EQ(place(0), -1);
  for (int i = 0; i < 4; ++i) EXPECT_NE(place(4), -1) << i;
  EXPECT_EQ(place(4), -1);
  EXPECT_EQ(shared.connections, 4u);
}

TEST_F(Placement, CountsNoneThatItRefuses) {
  for (int i = 0; i < 3; ++i) place(3);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(place(3), -1);
  EXPECT_EQ(shared.connections, 3u);
  EXPECT_EQ(loops[0]->connections + loops[1]->connections + loops[2]->connections, 3u);
  leave(1);
  EXPECT_EQ(place(3), 1);
  EXPECT_EQ(place(3), -1);
}

}  // namespace
}  // namespace weir::proxy::serve
