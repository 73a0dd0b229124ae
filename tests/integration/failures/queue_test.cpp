// Requests wait in weir until a replica has room for them, or is back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/peers/errors.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

WeirSettings with_a_queue(WeirSettings settings) {
  settings.pools[0].more.insert({{"queue", "256"}, {"policy", "\"round_robin\""}});
  settings.health.insert({"interval", "\"100ms\""});
  return settings;
}

WeirSettings one_at_a_time(WeirSettings settings) {
  for (auto& replica : settings.pools[0].replicas) replica.more = {{"max_in_flight", "1"}};
  return with_a_queue(std::move(settings));
}

/// Clients that ask, each on a connection of its own.
class Clients {
 public:
  explicit Clients(const WeirUnderTest& weir) : weir_(weir) {}
  HttpClient& ask(const std::string& fields = "", const std::string& body = chat_body()) {
    auto& client = *clients_.emplace_back(std::make_unique<HttpClient>(weir_.port()));
    client.send(post(chat, body, fields));
    return client;
  }
  HttpClient& operator[](std::size_t index) { return *clients_[index]; }
  std::size_t size() const { return clients_.size(); }

 private:
  const WeirUnderTest& weir_;
  std::vector<std::unique_ptr<HttpClient>> clients_;
};

void wait_for_waiting(const WeirUnderTest& weir, double n) {
  weir.metrics_when(std::to_string(n) + " requests to wait", [n](const MetricsPage& page) {
    return page.sum("weir_requests_waiting", {{"pool", "chat"}}) == n;
  });
}

/// Waits until the books are empty, but for the second in which they remember failures.
void expect_idle_soon(const WeirUnderTest& weir) {
  expect_idle(weir.metrics_when("an empty ledger",
                                [](const MetricsPage& page) { return page.sum("weir_queued_tokens") == 0; }));
  EXPECT_EQ(weir.metrics().sum("weir_requests_waiting"), 0);
}

TEST(Queue, AFullReplicaIsWaitedFor) {
  const auto script = vllm_chat(3);
  Event go_on;
  ScriptedReplica replica([&](Exchange& exchange) {
    go_on.wait("the test to go on");
    play(exchange, script);
  });
  WeirUnderTest weir(one_at_a_time(pool_of({&replica})));
  Clients clients(weir);
  for (int i = 0; i < 9; ++i) clients.ask();
  wait_for_waiting(weir, 8);
  replica.wait_for_requests(1);
  EXPECT_EQ(replica.requests().size(), 1u);
  go_on.set();
  for (std::size_t i = 0; i < clients.size(); ++i) EXPECT_EQ(clients[i].response().body, script.body(false));
  const auto metrics = weir.metrics_after(9);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "ok"}}), 9);
  EXPECT_EQ(metrics.sum("weir_queue_duration_seconds_count"), 9);
  EXPECT_GT(metrics.sum("weir_queue_duration_seconds_sum"), 0);
  std::size_t waited = 0;
  for (const auto& line : weir.log_lines(9)) waited += line.at("wait_s").to_number<double>() > 0 ? 1 : 0;
  EXPECT_EQ(waited, 8u);
  expect_idle_soon(weir);
}

/// The only replica dies with its requests and comes back: none of them is lost.
TEST(Queue, WhatTheOnlyReplicaLosesWaitsUntilItIsBack) {
  const auto script = vllm_chat(3);
  Event dies;
  auto mortal = std::make_unique<ScriptedReplica>([&](Exchange& exchange) {
    dies.wait("the test to go on");
    exchange.reset();
  });
  const auto port = mortal->port();
  WeirUnderTest weir(with_a_queue(pool_of({mortal.get()})));
  Clients clients(weir);
  for (int i = 0; i < 8; ++i) clients.ask();
  mortal->wait_for_requests(8);
  dies.set();
  mortal.reset();
  wait_for_waiting(weir, 8);
  ScriptedReplica back([&](Exchange& exchange) { play(exchange, script); },
                       ScriptedReplica::ModelsQuestion::answered_unseen, port);
  for (std::size_t i = 0; i < clients.size(); ++i) EXPECT_EQ(clients[i].response().body, script.body(false));
  EXPECT_EQ(weir.metrics_after(8).sum("weir_requests_total", {{"outcome", "ok"}}), 8);
  expect_idle_soon(weir);
}

/// A replica hangs while others work, and does not answer its probe either: what waits on it goes elsewhere, at no cost
/// to the budget.
TEST(Queue, WhatWaitsOnAHungReplicaGoesElsewhere) {
  const auto script = vllm_chat(3);
  ScriptedReplica hangs([](Exchange& exchange) { exchange.wait_for_close(); });
  ScriptedReplica works([&](Exchange& exchange) { play(exchange, script); });
  auto settings = with_a_queue(pool_of({&hangs, &works}));
  settings.limits = {{"retry_budget", "0"}};
  settings.health = {{"path", "\"/livez\""}, {"timeout", "\"300ms\""}, {"interval", "\"1h\""}};
  WeirUnderTest weir(settings);
  Clients clients(weir);
  for (int i = 0; i < 8; ++i) clients.ask();
  const auto begun = Clock::now();
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const auto got = clients[i].response();
    EXPECT_EQ(got.status, 200u);
    EXPECT_EQ(got.body, script.body(false));
  }
  EXPECT_LT(Clock::now() - begun, soon);
  const auto metrics = weir.metrics_after(8);
  EXPECT_EQ(metrics.sum("weir_retries_total", {{"reason", "hung"}, {"replica", "r0"}}), 4);
  expect_idle_soon(weir);
}

}  // namespace
}  // namespace weir::integration
