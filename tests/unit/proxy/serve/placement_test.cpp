#include "proxy/serve/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace weir::proxy::serve {
namespace {

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
  void leave(std::size_t loop) {
    placed.erase(std::ranges::find(placed, loops[loop].get(), &ConnectionCount::loop));
  }

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
