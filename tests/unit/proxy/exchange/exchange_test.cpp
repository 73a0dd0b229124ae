// An attempt is over: another replica may be asked, an error may be kept for the client, a replica is known better.

#include "proxy/exchange/exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Limit;
using metrics::series::Retry;
using testing::ElementsAre;
using testing::StartsWith;

TEST(Retries, BeginNoneWhileAllIsCut) {
  const std::string beginnings[]{"HTTP/1.1 503 Busy\r\nContent-Length: 10\r\n\r\n{", ""};
  for (const auto& beginning : beginnings) {
    ScriptedProxy proxy(2);
    proxy.plan.fill({says(beginning)});
    const auto client = proxy.asks(post(chat(true)));
    proxy.shared.cutting = true;
    if (beginning.empty()) proxy.upstream().breaks();
    for (int i = 0; i < 3; ++i) proxy.tick_in(i);
    EXPECT_TRUE(client->closed());
    EXPECT_THAT(asked(proxy), ElementsAre(1, 0, 0, 0));
    EXPECT_EQ(proxy.log_lines().size(), 1u);
    proxy.expect_at_rest();
  }
}

TEST(ErrorsKept, ThatAreSlowAreRelayedToTheirEndWhereNobodyElseIsAsked) {
  ScriptedProxy proxy(2, [](config::Settings& settings) { settings.limits.retry_budget = 0; });
  const auto answer = whole_answer("503 Busy", std::string(100, 'x'));
  proxy.plan[0] = {says(answer.substr(0, answer.size() - 10))};
  const auto begun = Clock::now();
  const auto client = proxy.asks(post(chat(true)));
  proxy.tick(begun + std::chrono::milliseconds(999));
  EXPECT_EQ(client->got, "") << "it is kept for a second";
  proxy.tick_in(1);
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 503 "));
  proxy.tick_in(5);
  EXPECT_FALSE(client->closed()) << "from here on it has the time of an answer";
  proxy.hears(proxy.upstream(), answer.substr(answer.size() - 10));
  EXPECT_EQ(read_answer(client->got).body, std::string(100, 'x'));
  EXPECT_THAT(asked(proxy), ElementsAre(1, 0, 0, 0));
}

TEST(ErrorsKept, ForAClientThatTakesNoneOfItsBytesEndItsConnection) {
  ScriptedProxy proxy(2);
  proxy.plan.fill({says(whole_answer("503 Busy", "{}"))});
  const auto client = proxy.client(post(chat(true)));
  client->takes_nothing();
  proxy.run();
  proxy.expect_closed_after(120, *client);
}

// An error says nothing of the option: a 400 may still be its fault, and the original is sent.
TEST(UsageOption, IsTakenWellOnlyWhereTheAnswerIsGoodAndNotBlamedThen) {
  for (const bool good : {false, true}) {
    ScriptedProxy proxy({good ? says(streamed_answer()) : says(whole_answer("404 Not Found", "{}")),
                         says(whole_answer("400 Bad Request", "{}")), says(streamed_answer())});
    const auto client = proxy.asks(post(chat(true)));
    EXPECT_THAT(client->got, StartsWith(good ? "HTTP/1.1 200 " : "HTTP/1.1 404 "));
    client->got.clear();
    Said said;
    proxy.hears(*client, post(chat(true)));
    EXPECT_THAT(client->got, StartsWith(good ? "HTTP/1.1 400 " : "HTTP/1.1 200 "));
    EXPECT_EQ(said.take().find("replica 'gpu0' refuses stream_options") != std::string::npos, !good);
    EXPECT_EQ(proxy.retries(Retry::injection_refused), good ? 0u : 1u);
  }
}

TEST(IdleConnections, OfAReplicaWhoseNameLeadsElsewhereAreNotUsed) {
  ScriptedProxy proxy;
  proxy.plan.fill({says(whole_answer("200 OK", completion))});
  const auto client = proxy.client();
  const auto asks = [&] {
    proxy.hears(*client, post(chat(false)));
  };
  asks();
  asks();
  EXPECT_THAT(asked(proxy), ElementsAre(1, 0, 0, 0)) << "it is used again";
  const auto address = *proxy.replica().state->address.get();
  proxy.replica().state->address.set(net::Address(address.address(), 2));
  asks();
  EXPECT_THAT(asked(proxy), ElementsAre(1, 1, 0, 0));
  EXPECT_TRUE(proxy.upstream().closed());
  asks();
  EXPECT_THAT(asked(proxy), ElementsAre(1, 1, 0, 0));
}

// An idle connection may be dead, and a request that is sent on it is then sent once more.
TEST(IdleConnections, AreNotUsedForWhatMayBeSentOnlyOnce) {
  for (const std::string method : {"GET", "HEAD", "OPTIONS", "POST", "DELETE"}) {
    SCOPED_TRACE(method);
    const std::size_t fresh = method == "POST" || method == "DELETE" ? 1 : 0;
    ScriptedProxy proxy({says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
                        [](config::Settings& settings) { settings.server.paths = {"/my/route"}; });
    const auto client = proxy.client();
    const auto asks = [&](const std::string& body) {
      proxy.hears(*client, method + " /my/route HTTP/1.1\r\nHost: weir\r\nContent-Length: " +
                               std::to_string(body.size()) + "\r\n\r\n" + body);
      return proxy.connections[0].size();
    };
    EXPECT_EQ(asks(""), 1u);
    EXPECT_EQ(asks(""), 1u + fresh) << "a method that only asks uses it again, without a body";
    EXPECT_EQ(asks("body"), 2u + fresh);
    EXPECT_EQ(asks(""), 2u + 2 * fresh);
  }
}

TEST(IdleConnections, ThatWereOneTooManyAreCountedButNotWhereNoneIsKept) {
  for (const std::size_t most : {0u, 1u, 2u}) {
    ScriptedProxy proxy(1, [&](config::Settings& settings) { settings.limits.idle_upstream_connections = most; });
    const auto one = proxy.client(post(chat(false))), other = proxy.client(post(chat(false)));
    proxy.run();
    ASSERT_EQ(proxy.connections[0].size(), 2u) << "both are under way";
    for (const auto& replica : proxy.connections[0]) replica->says(whole_answer("200 OK", completion));
    proxy.run();
    for (const auto& client : {one, other}) EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_EQ(proxy.limit_hits(Limit::idle_upstream_connections), most == 1 ? 1u : 0u) << most;
  }
}

TEST(LoopTick, ClosesIdleConnectionsThatNewSettingsDoNotKeep) {
  ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
  proxy.asks(post(chat(false)));
  const auto& idle = proxy.upstream();
  auto settings = proxy.snapshot->settings;
  settings.limits.first_token = config::Seconds(1);
  proxy.fleet.adopt(settings);
  proxy.tick(Clock::now());
  EXPECT_FALSE(idle.closed()) << "its replica is the same";
  settings.pools[0].replicas[0].url.port = 2;
  proxy.fleet.adopt(settings);
  proxy.tick(Clock::now());
  EXPECT_TRUE(idle.closed());
}

// A request that is no inference may take any time, and may not be sent twice.
TEST(Exchange, WhatIsNoInferenceStaysAtAReplicaThatHangs) {
  for (const bool inference : {false, true}) {
    ScriptedProxy proxy(2);
    const auto client = proxy.asks(inference ? post(chat(true))
                                               : "GET /v1/chat/completions HTTP/1.1\r\nHost: weir\r\n\r\n");
    ASSERT_EQ(proxy.connections[0].size(), 1u);
    proxy.replica(0).state->leaves.hung_at = Clock::now();
    proxy.tick_in(0.1);
    EXPECT_EQ(proxy.upstream().closed(), inference);
    proxy.breaks(*client);
  }
}

}  // namespace
}  // namespace weir::proxy::serve
