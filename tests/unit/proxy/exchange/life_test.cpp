// A replica is suspected to hang if none of its streams gets a token. These look so and are none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

/// The first of two replicas has a stream, and time passes for the pool as the prober lets it pass.
struct Stream {
  explicit Stream(const std::string& beginning) {
    proxy.plan[0] = {says(beginning)};
    client = proxy.client(post(chat(true)));
    proxy.run();
    replica = proxy.connections[0].front();
  }
  /// True if the replica is suspected to hang within so many seconds, each of which brings these bytes.
  bool is_suspected_within(int seconds, const std::string& each_second) {
    for (int i = 1; i <= seconds; ++i) {
      proxy.hears(*replica, each_second);
      auto& pool = *proxy.snapshot->pools.front()->balancer;
      static_cast<void>(pool.health().take_changes(begun + std::chrono::seconds(i)));
      if (!pool.health().take_suspects().empty()) return true;
    }
    return false;
  }
  ScriptedProxy proxy{2, [](config::Settings& settings) { settings.limits.read_ahead = 4000; }};
  const Clock::time_point begun = Clock::now();
  std::shared_ptr<net::Peer> client, replica;
};

const std::string coded_head =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: "
    "chunked\r\n\r\n";
const std::string json_head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(Life, IsNotThereWithoutBytesOrWithPingsAlone) {
  for (const auto& each : {std::string(), chunk(": ping\n\n"), chunk("data: \n\n")}) {
    for (const auto& head : {std::string(), sse_head()}) {
      if (head.empty() && !each.empty()) continue;
      Stream one(head);
      EXPECT_TRUE(one.is_suspected_within(8, each)) << each;
    }
  }
}

TEST(Life, IsWhatWeirCannotRead) {
  const struct {
    std::string head, each;
  } rows[] = {
      {coded_head, chunk("\x1f\x8b...")},
      {sse_head(), chunk("data: {\"novel\":\"text\"}\n\n")},
      {sse_head(), chunk("data: {\"broken\n\n")},
      {sse_head() + chunk(token("a")), chunk("data: {\"broken\n\n")},
      {json_head + chunk("{"), chunk("\"a\":1,")},
  };
  for (const auto& [head, each] : rows) {
    Stream one(head);
    EXPECT_FALSE(one.is_suspected_within(20, each)) << each;
    EXPECT_TRUE(one.is_suspected_within(40, "")) << "and then nothing more";
  }
}

TEST(Life, IsNoEventThatSaysNothingOnceTokensWereRead) {
  Stream one(sse_head() + chunk(token("a")));
  EXPECT_TRUE(one.is_suspected_within(10, chunk("data: {\"keep\":\"alive\"}\n\n")));
}

TEST(Life, IsNoErrorThatTheFrontOfAnEngineGives) {
  Stream one("HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_TRUE(one.is_suspected_within(10, chunk("no such model")));
}

TEST(Life, IsNotMissedWhereASlowClientIsInTheWay) {
  Stream one(sse_head() + chunk(token("a")));
  one.client->takes_nothing();
  one.replica->says(chunk(token(std::string(5000, 'x'))));
  one.proxy.run();
  one.replica->arrives_unseen(chunk(token("b")));
  one.proxy.run();
  ASSERT_GT(one.replica->unread(), 0u) << "the relay pauses";
  EXPECT_FALSE(one.is_suspected_within(30, ""));
  one.client->takes(net::Peer::any);
  one.proxy.run();
  EXPECT_EQ(one.replica->unread(), 0u);
  EXPECT_TRUE(one.is_suspected_within(60, "")) << "it is read again, and brings nothing";
}

}  // namespace
}  // namespace weir::proxy::serve
