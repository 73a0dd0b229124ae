// The opinion that an answer is of another replica that failed the same request, and when no other replica is asked.
#include <gtest/gtest.h>

#include <tuple>

#include "proxy/exchange/retries.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::exchange {
namespace {

using serve::ScriptedProxy;
using Next = Retries::Next;

/// Requests of many clients, whose attempts the test plays.
class Opinions : public testing::Test {
 protected:
  static ScriptedProxy::Change with_budget(double budget) {
    return [budget](config::Settings& settings) { settings.limits.retry_budget = budget; };
  }
  static balancer::Pool& pool(ScriptedProxy& proxy) { return *proxy.snapshot->pools.front()->balancer; }
  static Place place(const ScriptedProxy& proxy, std::size_t replica) {
    const auto& found = proxy.snapshot->pools.front()->replicas[replica];
    return {found, found->key};
  }
  static AttemptResult error(unsigned status) {
    AttemptResult result;
    result.end = AttemptEnd::refused;
    result.status = status;
    result.retry_reason = metrics::series::Retry::status;
    const auto outcome = status < 500 ? metrics::Outcome::client_error : metrics::Outcome::upstream_error;
    result.verdict.outcome = outcome;
    result.verdict.blame = blame_of(outcome, status);
    return result;
  }
  /// Each comes from another client.
  const ClientRequest& request_to(const ScriptedProxy& proxy) {
    request.snapshot = proxy.snapshot;
    request.route = http::Route::inference;
    ++request.address.front();
    return request;
  }
  static void report(ScriptedProxy& proxy, std::size_t replica, balancer::Sign sign, int times) {
    for (int i = 0; i < times; ++i) pool(proxy).report(place(proxy, replica).key, sign, serve::Clock::now());
  }
  static bool is_out(ScriptedProxy& proxy, std::size_t replica) {
    return pool(proxy).health(place(proxy, replica).key, serve::Clock::now()).state == balancer::ReplicaState::ejected;
  }

  ClientRequest request;
};

TEST_F(Opinions, OnlyAGoodAnswerOfAnotherReplicaOutdoesARefusal) {
  const std::tuple<std::size_t, unsigned, bool> rows[] = {{1, 200, true},  {1, 302, true},  {1, 400, false},
                                                          {1, 404, false}, {1, 422, false}, {1, 500, false},
                                                          {1, 501, false}, {1, 503, false}, {0, 200, false}};
  for (const auto& [by, status, outdone] : rows) {
    ScriptedProxy proxy(3, with_budget(1));
    report(proxy, 0, balancer::Sign::client_error, 20);
    for (int i = 0; i < 4; ++i) {
      report(proxy, 1, balancer::Sign::answered, 20);
      Retries retries(proxy.loop, request_to(proxy), proxy.snapshot->pools.front().get());
      if (is_out(proxy, 0)) break;
      ASSERT_EQ(retries.after(error(422), place(proxy, 0)), Next::attempt);
      retries.accepted(place(proxy, by), status);
      retries.over();
    }
    report(proxy, 0, balancer::Sign::client_error, 1);
    EXPECT_EQ(is_out(proxy, 0), outdone) << by << " answers " << status;
  }
}

TEST_F(Opinions, TwoRefusalsAreEnoughUnlessTheSecondIsADoubtOfItsOwn) {
  const std::tuple<unsigned, unsigned, Next> rows[] = {{422, 400, Next::end},     {400, 422, Next::end},
                                                       {404, 422, Next::end},     {404, 404, Next::end},
                                                       {422, 404, Next::attempt}, {404, 401, Next::attempt}};
  for (const auto& [first, second, next] : rows) {
    ScriptedProxy proxy(3, with_budget(1));
    Retries retries(proxy.loop, request_to(proxy), proxy.snapshot->pools.front().get());
    EXPECT_EQ(retries.after(error(first), place(proxy, 0)), Next::attempt);
    EXPECT_EQ(retries.after(error(second), place(proxy, 1)), next) << first << ' ' << second;
  }
}

TEST_F(Opinions, AnErrorOfItsOwnCountsOnceAnotherReplicaDoesBetter) {
  for (const unsigned status : {200u, 404u, 500u, 502u}) {
    ScriptedProxy proxy(3, with_budget(1));
    for (int i = 0; i < 6; ++i) {
      Retries retries(proxy.loop, request_to(proxy), proxy.snapshot->pools.front().get());
      ASSERT_EQ(retries.after(error(500), place(proxy, 0)), Next::attempt);
      retries.accepted(place(proxy, 1), status);
      auto relayed = error(status);
      relayed.end = AttemptEnd::answered;
      if (status >= 500) retries.after(std::move(relayed), place(proxy, 1));
      retries.over();
    }
    EXPECT_EQ(is_out(proxy, 0), status < 500) << status;
    EXPECT_FALSE(is_out(proxy, 1));
  }
}

TEST_F(Opinions, AnErrorOfWhichNobodyWasAskedCountsUnlessSuchAreAbout) {
  for (const bool about : {false, true}) {
    ScriptedProxy proxy(3, with_budget(0));
    if (about) report(proxy, 2, balancer::Sign::absolved, 1);
    for (int i = 0; i < 6; ++i) {
      Retries retries(proxy.loop, request_to(proxy), proxy.snapshot->pools.front().get());
      ASSERT_EQ(retries.after(error(500), place(proxy, 0)), Next::end);
      retries.over();
    }
    EXPECT_EQ(is_out(proxy, 0), !about);
  }
}

TEST_F(Opinions, AWantOfDescriptorsIsToldAtOnceAndDoesNotWaitInTheQueue) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.pools.front().queue.requests = 9; });
  for (const int error : {EMFILE, ENFILE, EADDRNOTAVAIL}) {
    proxy.refuses_at_once[0] = error;
    const auto client = proxy.client(serve::post(serve::chat(true)));
    proxy.run();
    EXPECT_EQ(serve::read_answer(client->got).status, 503u) << error;
    EXPECT_EQ(pool(proxy).queue(serve::Clock::now()).waiting, 0u);
  }
}

// Nobody knows how long it takes, or whether it may be sent twice.
TEST_F(Opinions, WhatIsNoInferenceStaysAtAReplicaThatHangs) {
  for (const bool inference : {false, true}) {
    ScriptedProxy proxy(2);
    const auto client = proxy.client(inference ? serve::post(serve::chat(true))
                                               : "GET /v1/chat/completions HTTP/1.1\r\nHost: weir\r\n\r\n");
    proxy.run();
    ASSERT_EQ(proxy.connections[0].size(), 1u);
    proxy.replica(0).state->hung_at = serve::Clock::now();
    proxy.tick_in(0.1);
    EXPECT_EQ(proxy.connections[0].front()->closed(), inference);
    client->breaks();
    proxy.run();
  }
}

}  // namespace
}  // namespace weir::proxy::exchange
