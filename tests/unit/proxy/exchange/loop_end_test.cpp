// A loop may end with everything under way: what it unwinds then finds all that it uses.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::exchange {
namespace {

TEST(LoopEnd, UnwindsRequestsThatWereCutAndHaveNotEnded) {
  serve::ScriptedProxy proxy({serve::says(sse_head() + chunk(token("a")))});
  auto loop = std::make_unique<Loop>(proxy.shared, 1);
  loop->connector = proxy.connector();
  constexpr std::size_t streams = 40;
  std::vector<std::shared_ptr<net::Peer>> clients;
  for (std::size_t i = 0; i < streams; ++i) {
    auto& client = clients.emplace_back(std::make_shared<net::Peer>(proxy.calls));
    serve::start_session(*loop, std::make_unique<net::ScriptedChannel>(client),
                         {.count = serve::ConnectionCount(*loop)});
    client->says(serve::post(serve::chat(true)));
  }
  const auto turn = [&] {
    bool any = loop->context.poll() > 0;
    for (const auto& client : clients) any = client->report() || any;
    return proxy.turn() || any;
  };
  while (turn()) {
  }
  ASSERT_EQ(loop->streams.load(), streams);
  proxy.shared.cutting = true;
  const auto now = serve::Clock::now();
  for (bool more = loop->deadlines.tick(now); more;) more = loop->deadlines.go_on(now);
  ASSERT_EQ(loop->streams.load(), streams) << "their ends are queued";
  proxy.grants.close();
  loop.reset();
  EXPECT_EQ(proxy.shared.connections.load(), 0u);
}

TEST(LoopEnd, OfManyStreamsLetsOthersHaveTheirTurnBetween) {
  serve::ScriptedProxy proxy({serve::says(sse_head() + chunk(token("a")))});
  constexpr std::size_t streams = 300;
  std::vector<std::shared_ptr<net::Peer>> clients;
  for (std::size_t i = 0; i < streams; ++i) clients.push_back(proxy.client(serve::post(serve::chat(true))));
  proxy.run();
  proxy.shared.cutting = true;
  proxy.loop.tick(serve::Clock::now());
  const auto ended = std::ranges::count_if(proxy.connections[0], [](const auto& replica) { return replica->closed(); });
  EXPECT_LE(ended, static_cast<std::ptrdiff_t>(net::Deadlines::handled_at_once)) << "in the tick itself";
  std::size_t turns = 0;
  for (bool more = true; more; ++turns) {
    const auto before = proxy.loop.streams.load();
    more = proxy.loop.context.poll_one() > 0;
    EXPECT_LE(before - proxy.loop.streams.load(), net::Deadlines::handled_at_once);
  }
  EXPECT_GE(turns, streams / net::Deadlines::handled_at_once);
  proxy.run();
  EXPECT_EQ(proxy.loop.streams.load(), 0u);
  EXPECT_EQ(proxy.log_lines().size(), streams);
  proxy.expect_at_rest();
}

}  // namespace
}  // namespace weir::proxy::exchange
