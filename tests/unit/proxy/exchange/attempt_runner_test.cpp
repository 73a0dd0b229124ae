// Requests that wait for a replica, and every way in which a wait ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <set>

#include "proxy/exchange/attempt_runner.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Limit;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// Replicas take one request each, and others wait.
ScriptedProxy::Change one_at_a_time(const ScriptedProxy::Change& more = {}) {
  return [more](config::Settings& settings) {
    auto& pool = settings.pools.front();
    pool.queue.requests = 256;
    for (auto& replica : pool.replicas) replica.max_in_flight = 1;
    if (more) more(settings);
  };
}

/// Believes credentials, as behind a gateway that checks them.
void by_credential(config::Settings& settings) {
  settings.pools[0].queue.fair_by = {config::FairBy::What::header, "authorization"};
}

/// A single replica, which a lease of the test's own keeps busy, and a client that waits for it.
class AWait : public testing::Test {
 protected:
  explicit AWait(const ScriptedProxy::Change& more = {}) : proxy(1, one_at_a_time(more)) {
    proxy.plan[0] = {says(streamed_answer())};
    keep_busy();
    client = proxy.client(post(chat(true)));
    proxy.run();
    EXPECT_EQ(waiting(), 1u);
    EXPECT_EQ(client->got, "");
  }

  balancer::Pool& pool() { return *proxy.snapshot->pools.front()->balancer; }
  std::size_t waiting() { return pool().figures().queue(Clock::now()).waiting; }
  void keep_busy() {
    metrics::wire::RequestFacts facts;
    auto offered = pool().offer({std::make_shared<const metrics::wire::RequestFacts>(facts)}, Clock::now());
    lease = std::move(std::get<balancer::Admitted>(offered).lease);
  }
  /// The replica has room from now on. The grant is posted, and nobody has seen it yet.
  void free_the_replica() { lease.end(balancer::LeaseEnd(balancer::EndCause::answered), Clock::now()); }
  boost::json::object only_line() {
    const auto lines = proxy.log_lines();
    EXPECT_EQ(lines.size(), 1u);
    return lines.empty() ? boost::json::object() : boost::json::parse(lines.front()).as_object();
  }
  void expect_rejected(unsigned status) {
    EXPECT_EQ(read_answer(client->got).status, status);
    const auto line = only_line();
    EXPECT_EQ(line.at("outcome"), "rejected");
    EXPECT_EQ(line.at("pool"), "pool");
    EXPECT_TRUE(line.at("replica").is_null());
    EXPECT_EQ(line.at("attempt"), 0);
    EXPECT_TRUE(proxy.connections[0].empty());
    free_the_replica();
    proxy.expect_at_rest();
  }

  ScriptedProxy proxy;
  balancer::Lease lease;
  std::shared_ptr<net::Peer> client;
};

TEST_F(AWait, EndsWhenThereIsRoom) {
  free_the_replica();
  proxy.run();
  EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_FALSE(client->closed());
  proxy.expect_at_rest();
}

/// TTFT is the replica's; what the user waited has the queue in it, too.
TEST_F(AWait, IsPartOfWhatTheClientWaitedAndNotOfTheReplicasTtft) {
  const auto begun = Clock::now();
  while (Clock::now() - begun < std::chrono::milliseconds(3)) {
  }
  free_the_replica();
  proxy.run();
  const auto line = only_line();
  const auto figure = [&](const char* name) { return line.at(name).as_double(); };
  EXPECT_GE(figure("wait_s"), 0.003);
  EXPECT_GE(figure("queue_s"), figure("wait_s"));
  EXPECT_GE(figure("ttft_client_s"), figure("ttft_s") + figure("wait_s"));
  EXPECT_NEAR(figure("ttft_client_s"), figure("ttft_s") + figure("queue_s"), 1e-6);
  EXPECT_GE(proxy.shard().queue_duration.sum(), 3'000'000u);
  EXPECT_NEAR(static_cast<double>(proxy.shard().time_to_first_token.sum()), figure("ttft_s") * 1e9, 1000);
}

TEST_F(AWait, ShowsOnTheMetricsPage) {
  EXPECT_THAT(proxy.exposition.text(), HasSubstr("weir_requests_waiting{pool=\"pool\",role=\"primary\"} 1"));
  EXPECT_EQ(pool().figures().queue(Clock::now()).waiting_bytes, chat(true).size());
  free_the_replica();
  proxy.run();
  EXPECT_THAT(proxy.exposition.text(), HasSubstr("weir_requests_waiting{pool=\"pool\",role=\"primary\"} 0"));
}

TEST_F(AWait, EndsWhenTheClientLeavesAndNothingButTheCountTellsOfIt) {
  proxy.ends(*client);
  EXPECT_EQ(waiting(), 0u);
  EXPECT_TRUE(client->closed());
  EXPECT_EQ(client->got, "");
  const auto line = only_line();
  EXPECT_EQ(line.at("outcome"), "client_abort");
  EXPECT_EQ(line.at("phase"), "queue");
  EXPECT_TRUE(line.at("replica").is_null());
  free_the_replica();
  proxy.run();
  EXPECT_TRUE(proxy.connections[0].empty());
  proxy.expect_at_rest();
}

TEST_F(AWait, EndsAtItsDeadline) {
  proxy.tick_in(29.9);
  EXPECT_EQ(client->got, "");
  proxy.tick_in(30.1);
  EXPECT_THAT(client->got,
              AllOf(HasSubstr("had room in time"), HasSubstr("\r\nRetry-After: "), HasSubstr("\r\nretry-after-ms: ")));
  EXPECT_FALSE(client->closed()) << "the client may ask again";
  EXPECT_EQ(proxy.limit_hits(Limit::queue_time), 1u);
  EXPECT_GT(only_line().at("wait_s").as_double(), 0);
  expect_rejected(429);
}

TEST_F(AWait, GoesOnWhileWeirDrains) {
  proxy.shared.draining = proxy.shared.closing = true;
  proxy.tick_in(1);
  EXPECT_EQ(client->got, "");
  free_the_replica();
  proxy.run();
  EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_TRUE(client->closed());
}

TEST_F(AWait, EndsWhenAllIsCut) {
  proxy.shared.cutting = true;
  proxy.tick_in(0.1);
  EXPECT_THAT(client->got, HasSubstr("weir is stopping"));
  expect_rejected(503);
}

TEST_F(AWait, HasAGrantForNobodyIfTheClientLeftMeanwhile) {
  free_the_replica();
  client->ends();
  client->report();
  EXPECT_EQ(pool().figures().in_flight(), 1u) << "the grant is on its way";
  proxy.run();
  EXPECT_TRUE(proxy.connections[0].empty());
  EXPECT_EQ(only_line().at("outcome"), "client_abort");
  proxy.expect_at_rest();
}

TEST_F(AWait, TakesTheGrantThatIsUnderWayAtTheDeadline) {
  free_the_replica();
  proxy.loop.deadlines.tick(Clock::now() + std::chrono::seconds(31));
  EXPECT_EQ(client->got, "");
  proxy.run();
  EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_EQ(only_line().at("outcome"), "ok");
  proxy.expect_at_rest();
}

TEST_F(AWait, DropsTheGrantThatIsUnderWayWhenAllIsCut) {
  free_the_replica();
  proxy.shared.cutting = true;
  proxy.loop.deadlines.tick(Clock::now());
  proxy.run();
  EXPECT_EQ(read_answer(client->got).status, 503u);
  EXPECT_TRUE(proxy.connections[0].empty());
  proxy.expect_at_rest();
}

TEST_F(AWait, KeepsWhatTheClientSendsMeanwhile) {
  proxy.hears(*client, health());
  free_the_replica();
  proxy.run();
  EXPECT_THAT(read_answer(client->got).rest, StartsWith("HTTP/1.1 200 "));
}

TEST_F(AWait, IsRefusedByAClosedSink) {
  proxy.grants.close();
  free_the_replica();
  proxy.run();
  EXPECT_EQ(client->got, "");
  EXPECT_EQ(pool().figures().in_flight(), 0u) << "the lease went back";
  proxy.tick_in(31);
}

TEST(Waits, ThatAreManyHaveTheirTurnOneAfterTheOther) {
  ScriptedProxy proxy(2, one_at_a_time());
  std::vector<std::shared_ptr<net::Peer>> clients;
  for (int i = 0; i < 50; ++i) clients.push_back(proxy.client(post(chat(true))));
  proxy.run();
  EXPECT_EQ(proxy.connections[0].size() + proxy.connections[1].size(), 2u);
  for (auto& plan : proxy.plan) plan = {says(streamed_answer())};
  for (std::size_t i = 0; i < 2; ++i) proxy.connections[i].front()->says(streamed_answer());
  proxy.run();
  for (const auto& client : clients) EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_EQ(proxy.exposition.requests().well, 50u);
  proxy.expect_at_rest();
}

TEST(Waits, ForLongerThanTheQueueHoldsAreRefusedTheNewestOfWhomeverHasMost) {
  ScriptedProxy proxy(1, one_at_a_time([](config::Settings& settings) {
                        settings.pools[0].queue.requests = 2;
                        by_credential(settings);
                      }));
  const auto by = [&](const std::string& key) {
    return proxy.client(post(chat(true), "Authorization: " + key + "\r\n"));
  };
  by("x");
  const auto first = by("x");
  proxy.run();
  const auto second = by("x");
  proxy.run();
  const auto other = by("y");
  proxy.run();
  EXPECT_EQ(first->got + other->got, "");
  EXPECT_THAT(second->got, AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr("you have most waiting there")));
  const auto third = by("x");
  proxy.run();
  EXPECT_THAT(third->got, StartsWith("HTTP/1.1 429 "));
  EXPECT_EQ(proxy.limit_hits(Limit::queue), 2u);
  EXPECT_EQ(proxy.snapshot->pools.front()->balancer->figures().queue(Clock::now()).waiting, 2u);
}

/// A made-up credential shares nothing out unless the settings believe it.
TEST(Waits, OfOneWhoSendsALotDoNotHoldUpOneWhoSendsLittle) {
  const std::string prompt(12'000, 'x');
  const std::string body = R"({"model":"m","stream":true,"messages":[{"role":"user","content":")" + prompt + R"("}]})";
  for (const bool believes : {true, false}) {
    ScriptedProxy proxy(1, one_at_a_time(believes ? by_credential : nullptr));
    const auto client_of = [&](const std::string& name) {
      if (believes) return proxy.client(post(body, "Authorization: " + name + "\r\n"));
      proxy.address.fill(static_cast<unsigned char>(name.front()));
      return proxy.client(post(body));
    };
    for (int i = 0; i < 8; ++i) {
      client_of("heavy");
      proxy.run();
    }
    const auto light = client_of("light");
    proxy.run();
    std::size_t before = 0;
    for (; before < 9 && light->got.empty(); ++before) {
      proxy.connections[0].back()->says(streamed_answer());
      proxy.run();
    }
    EXPECT_LE(before, 4u) << "the light one goes after one or two of the heavy ones";
  }
}

TEST(Waits, WithoutAQueueAreNone) {
  for (const auto limit : {Limit::max_in_flight, Limit::max_queued_tokens}) {
    ScriptedProxy proxy({[](net::Peer&) {}}, [limit](config::Settings& settings) {
      auto& replica = settings.pools[0].replicas[0];
      if (limit == Limit::max_in_flight) replica.max_in_flight = 1;
      if (limit == Limit::max_queued_tokens) replica.max_queued_tokens = 1;
    });
    proxy.asks(post(chat(true)));
    ASSERT_EQ(proxy.connections[0].size(), 1u) << "an empty replica takes a prompt of any length";
    const auto client = proxy.asks(post(chat(true)));
    EXPECT_THAT(client->got,
                AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr("every replica of pool 'pool' is at its limit")));
    for (const auto one : {Limit::max_in_flight, Limit::max_queued_tokens})
      EXPECT_EQ(proxy.limit_hits(one), one == limit ? 1u : 0u);
  }
}

TEST(RetryAfter, IsSpreadOverHalfOfThePoolsFigure) {
  ScriptedProxy proxy(1, one_at_a_time([](config::Settings& settings) { settings.pools[0].queue.requests = 0; }));
  proxy.asks(post(chat(true)));
  std::set<long> seen;
  for (int i = 0; i < 200; ++i) {
    const auto client = proxy.asks(post(chat(true)));
    const auto field = client->got.find("retry-after-ms: ");
    ASSERT_NE(field, std::string::npos);
    seen.insert(std::stol(client->got.substr(field + 16)));
    client->ends();
  }
  proxy.run();
  EXPECT_GE(*seen.begin(), 5000);
  EXPECT_LE(*seen.rbegin(), 7500);
  EXPECT_LT(*seen.begin(), 5250);
  EXPECT_GT(*seen.rbegin(), 7250);
  EXPECT_GT(seen.size(), 100u);
}

}  // namespace
}  // namespace weir::proxy::serve
