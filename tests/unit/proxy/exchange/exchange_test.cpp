// What follows from an attempt: who is asked next, which error the client gets, and what is learned of a replica.

#include "proxy/exchange/exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Limit;
using metrics::series::Retry;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const std::string too_large_to_keep = whole_answer("503 Busy", std::string(100'000, 'x'));

TEST(Retries, AreTwoAtMostWhereTheFirstErrorIsTooLargeToKeep) {
  ScriptedProxy proxy(4);
  proxy.plan.fill({says(whole_answer("503 Busy", "{}"))});
  proxy.plan[0] = {says(too_large_to_keep, 20'000)};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  EXPECT_EQ(read_answer(client->got).body, "{}");
  const auto body_to = [&](std::size_t replica) {
    const auto& got = proxy.connections[replica].front()->got;
    return got.substr(got.find("\r\n\r\n"));
  };
  EXPECT_EQ(body_to(1), body_to(0)) << "the same request";
  EXPECT_THAT(proxy.log_lines(), ElementsAre(AllOf(HasSubstr(R"("attempt":3)"), HasSubstr(R"("replica":"gpu1")"))));
  EXPECT_THAT(asked(proxy), ElementsAre(1, 1, 1, 0)) << "what was settled for the large error holds for that one alone";
  proxy.expect_at_rest();
}

TEST(Retries, BeginNoneWhileAllIsCut) {
  const std::string beginnings[]{"HTTP/1.1 503 Busy\r\nContent-Length: 10\r\n\r\n{", ""};
  for (const auto& beginning : beginnings) {
    ScriptedProxy proxy(2);
    proxy.plan.fill({says(beginning)});
    const auto client = proxy.client(post(chat(true)));
    proxy.run();
    proxy.shared.cutting = true;
    if (beginning.empty()) proxy.connections[0].front()->breaks();
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
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  proxy.tick(begun + std::chrono::milliseconds(999));
  EXPECT_EQ(client->got, "") << "it is kept for a second";
  proxy.tick_in(1);
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 503 "));
  proxy.tick_in(5);
  EXPECT_FALSE(client->closed()) << "from here on it has the time of an answer";
  proxy.connections[0].front()->says(answer.substr(answer.size() - 10));
  proxy.run();
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

TEST(UsageOption, IsTakenWellOnlyWhereTheAnswerIsGood) {
  // An error says nothing of the option: a 400 may still be its fault, and the original is sent.
  ScriptedProxy proxy;
  proxy.plan[0] = {says(whole_answer("404 Not Found", "{}")), says(whole_answer("400 Bad Request", "{}")),
                   says(streamed_answer())};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 404 "));
  client->got.clear();
  Said said;
  client->says(post(chat(true)));
  proxy.run();
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(said.take(), HasSubstr("replica 'gpu0' refuses stream_options"));
  EXPECT_EQ(proxy.retries(Retry::injection_refused), 1u);
}

TEST(UsageOption, IsNotBlamedOnceItWasTakenWell) {
  ScriptedProxy proxy;
  proxy.plan[0] = {says(streamed_answer()), says(whole_answer("400 Bad Request", "{}"))};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 200 "));
  client->got.clear();
  client->says(post(chat(true)));
  proxy.run();
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(proxy.retries(Retry::injection_refused), 0u);
}

TEST(IdleConnections, OfAReplicaWhoseNameLeadsElsewhereAreNotUsed) {
  ScriptedProxy proxy;
  proxy.plan.fill({says(whole_answer("200 OK", completion))});
  const auto client = proxy.client();
  const auto asks = [&] {
    client->says(post(chat(false)));
    proxy.run();
  };
  asks();
  asks();
  EXPECT_THAT(asked(proxy), ElementsAre(1, 0, 0, 0)) << "it is used again";
  const auto address = *proxy.replica().state->address.get();
  proxy.replica().state->address.set(net::Address(address.address(), 2));
  asks();
  EXPECT_THAT(asked(proxy), ElementsAre(1, 1, 0, 0));
  EXPECT_TRUE(proxy.connections[0].front()->closed());
  asks();
  EXPECT_THAT(asked(proxy), ElementsAre(1, 1, 0, 0));
}

TEST(IdleConnections, AreNotUsedForWhatMayBeSentOnlyOnce) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.server.paths = {"/my/route"}; });
  proxy.plan[0] = {says(whole_answer("200 OK", "{}"))};
  const auto client = proxy.client();
  for (const std::string method : {"POST", "POST", "GET", "HEAD", "OPTIONS", "DELETE"}) {
    client->says(method + " /my/route HTTP/1.1\r\nHost: weir\r\nContent-Length: 0\r\n\r\n");
    proxy.run();
  }
  EXPECT_EQ(proxy.connections[0].size(), 3u) << "POST, POST and what is safe, DELETE";
}

/// An idle connection may be dead, and what is sent on it is then sent once more.
TEST(IdleConnections, AreNotUsedForABodyThatIsNoInference) {
  for (const std::string method : {"GET", "HEAD", "OPTIONS"}) {
    SCOPED_TRACE(method);
    ScriptedProxy proxy(1, [](config::Settings& settings) { settings.server.paths = {"/my/route"}; });
    proxy.plan[0] = {says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")};
    const auto client = proxy.client();
    const auto asks = [&](const std::string& body) {
      client->says(method + " /my/route HTTP/1.1\r\nHost: weir\r\nContent-Length: " + std::to_string(body.size()) +
                   "\r\n\r\n" + body);
      proxy.run();
      return proxy.connections[0].size();
    };
    EXPECT_EQ(asks(""), 1u);
    EXPECT_EQ(asks(""), 1u) << "without a body it is used again";
    EXPECT_EQ(asks("body"), 2u);
    EXPECT_EQ(asks("body"), 3u);
    EXPECT_EQ(asks(""), 3u);
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
  ScriptedProxy proxy;
  proxy.plan[0] = {says(whole_answer("200 OK", completion))};
  proxy.client(post(chat(false)));
  proxy.run();
  const auto& idle = *proxy.connections[0].front();
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

TEST(Exchange, AWantOfDescriptorsIsToldAtOnceAndDoesNotWaitInTheQueue) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.pools.front().queue.requests = 9; });
  for (const int error : {EMFILE, ENFILE, EADDRNOTAVAIL}) {
    proxy.refuses_at_once[0] = error;
    const auto client = proxy.client(post(chat(true)));
    proxy.run();
    EXPECT_EQ(read_answer(client->got).status, 503u) << error;
    EXPECT_EQ(proxy.snapshot->pools.front()->balancer->figures().queue(Clock::now()).waiting, 0u);
  }
}

// Nobody knows how long it takes, or whether it may be sent twice.
TEST(Exchange, WhatIsNoInferenceStaysAtAReplicaThatHangs) {
  for (const bool inference : {false, true}) {
    ScriptedProxy proxy(2);
    const auto client = proxy.client(inference ? post(chat(true))
                                               : "GET /v1/chat/completions HTTP/1.1\r\nHost: weir\r\n\r\n");
    proxy.run();
    ASSERT_EQ(proxy.connections[0].size(), 1u);
    proxy.replica(0).state->hung_at = Clock::now();
    proxy.tick_in(0.1);
    EXPECT_EQ(proxy.connections[0].front()->closed(), inference);
    client->breaks();
    proxy.run();
  }
}

}  // namespace
}  // namespace weir::proxy::serve
