// Requests that go out again over real loops: what is sent, counted, logged and told. tests/unit/balancer/story has the
// tables of who is asked, and at whose expense.

#include "proxy/exchange/exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Retry;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

void breaks(net::Peer& replica) { replica.breaks(); }
void ends(net::Peer& replica) { replica.ends(); }

TEST(RetryBudget, IsSparedForAllThatWereOnTheReplicaWhenItWent) {
  ScriptedProxy proxy(2, without_budget());
  proxy.plan[1] = {says(streamed_answer())};
  std::vector<std::shared_ptr<net::Peer>> clients;
  for (int i = 0; i < 24; ++i) clients.push_back(proxy.client(post(chat(true))));
  proxy.run();
  EXPECT_EQ(proxy.connections[0].size(), 12u);
  for (const auto& one : proxy.connections[0]) one->breaks();
  proxy.run();
  for (const auto& client : clients) EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_EQ(proxy.retries(Retry::reset), 12u);
  proxy.expect_at_rest();
}

// A fifth of the requests in flight, and three at least.
TEST(RetryBudget, GrowsWithTheRequestsInFlight) {
  for (const std::size_t in_flight : {0u, 19u, 20u}) {
    ScriptedProxy proxy(2);
    proxy.plan[0] = proxy.plan[1] = {says(whole_answer("500 Broken", "{}"))};
    std::vector<balancer::Lease> others;
    for (std::size_t i = 0; i < in_flight; ++i) {
      auto offered = proxy.snapshot->pools.front()->balancer->offer(metrics::wire::RequestFacts(), Clock::now());
      others.push_back(std::move(std::get<balancer::Admitted>(offered).lease));
    }
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(proxy.fleet.retries().take());
    const auto client = proxy.client(post(chat(true)));
    proxy.run();
    EXPECT_EQ(proxy.retries(Retry::status, 0) + proxy.retries(Retry::status, 1), in_flight < 20 ? 0u : 1u) << in_flight;
    for (int i = 0; i < 3; ++i) proxy.fleet.retries().give_back();
    for (auto& lease : others) lease.end(balancer::LeaseEnd(balancer::EndCause::unsent), Clock::now());
  }
}

TEST(NoAddress, EndsARequestForWhichNoOtherReplicaIsLeft) {
  ScriptedProxy proxy(2, without_budget());
  proxy.replica(0).state->address.set(std::nullopt);
  proxy.snapshot->pools.front()->balancer->health().report(proxy.replica(1).key, balancer::Sign::refused, Clock::now());
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 502 "));
  EXPECT_LE(proxy.retries(Retry::connect), 2u);
  proxy.expect_at_rest();
}

/// The pool's only replica moves while it has a request: as a reload or discovery has it.
class Moved : public testing::Test {
 protected:
  void moves() {
    auto settings = proxy.snapshot->settings;
    settings.pools[0].replicas[0].url.port = 2;
    settings.pools[0].replicas[0].url.authority = "127.0.0.1:2";
    proxy.fleet.adopt(settings);
  }
  void expect_answered_by_the_new_one(Retry reason) {
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_THAT(asked(proxy), ElementsAre(1, 1, 0, 0));
    EXPECT_EQ(proxy.retries(reason), 1u);
    EXPECT_THAT(proxy.log_lines(), ElementsAre(HasSubstr(R"("attempt":2)")));
  }
  std::shared_ptr<net::Peer> asks(std::function<void(net::Peer&)> begins) {
    proxy.plan[0] = {std::move(begins)};
    proxy.plan[1] = {says(streamed_answer())};
    client = proxy.client(post(chat(true)));
    proxy.run();
    moves();
    return proxy.connections[0].front();
  }
  ScriptedProxy proxy;
  std::shared_ptr<net::Peer> client;
};

TEST_F(Moved, AndThenTheOldOneBreaksOff) {
  asks([](net::Peer&) {})->breaks();
  proxy.run();
  expect_answered_by_the_new_one(Retry::reset);
}

TEST_F(Moved, AndThenTheOldOneHangs) {
  asks([](net::Peer&) {});
  proxy.replica(0).state->hung_at = Clock::now();
  proxy.tick_in(0.1);
  expect_answered_by_the_new_one(Retry::hung);
}

/// The pool's only replica is lost with a request, of which nothing has reached the client.
class Lost : public testing::Test {
 protected:
  static ScriptedProxy::Change with_a_queue() {
    return [](config::Settings& settings) {
      settings.pools.front().queue.requests = 256;
      settings.limits.retry_budget = 0;
    };
  }
  balancer::Pool& pool() { return *proxy.snapshot->pools.front()->balancer; }
  void passes(double seconds) {
    static_cast<void>(pool().health().take_changes(Clock::now() + metrics::ticks(config::Seconds(seconds))));
    proxy.run();
  }
  ScriptedProxy proxy{1, with_a_queue()};
};

TEST_F(Lost, ItsRequestWaitsAndIsSentAgain) {
  for (const auto how : {breaks, ends}) {
    ScriptedProxy one(1, with_a_queue());
    auto& books = *one.snapshot->pools.front()->balancer;
    one.plan[0] = {how, says(streamed_answer())};
    const auto client = one.client(post(chat(true)));
    one.run();
    EXPECT_EQ(client->got, "");
    EXPECT_EQ(books.figures().queue(Clock::now()).waiting, 1u);
    EXPECT_EQ(one.retries(Retry::reset), 0u) << "it has not been sent again yet";
    static_cast<void>(books.health().take_changes(Clock::now() + std::chrono::milliseconds(1100)));
    one.run();
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_EQ(one.retries(Retry::reset), 1u);
    EXPECT_THAT(one.log_lines(), ElementsAre(AllOf(HasSubstr(R"("outcome":"ok")"), HasSubstr(R"("attempt":2)"))));
    one.expect_at_rest();
  }
}

TEST_F(Lost, TwiceItsRequestIsSuspectAndWaitsNoMore) {
  proxy.plan[0] = {breaks};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  passes(1.1);
  EXPECT_THAT(client->got, AllOf(StartsWith("HTTP/1.1 502 "), HasSubstr("for the second time")));
  EXPECT_THAT(asked(proxy), ElementsAre(2, 0, 0, 0));
  EXPECT_THAT(proxy.log_lines(), ElementsAre(HasSubstr(R"("suspect":true)")));
  proxy.expect_at_rest();
}

TEST(Suspect, IsARequestThatTwoReplicasBrokeOffWith) {
  for (const auto how : {breaks, ends}) {
    ScriptedProxy proxy(4);
    proxy.plan.fill({how});
    Said said;
    const auto client = proxy.client(post(chat(true)));
    proxy.run();
    EXPECT_THAT(said.take(), HasSubstr("may end replicas: for the second time one broke off"));
    EXPECT_THAT(client->got,
                AllOf(StartsWith("HTTP/1.1 502 "), HasSubstr("now 'gpu1'"), HasSubstr("for the second time")));
    EXPECT_THAT(asked(proxy), ElementsAre(1, 1, 0, 0));
    EXPECT_THAT(proxy.log_lines(), ElementsAre(AllOf(HasSubstr(R"("suspect":true)"), HasSubstr(R"("attempt":2)"))));
    proxy.expect_at_rest();
  }
}

TEST(Suspect, IsNotOneWhoseReplicasWeirCutAtTheEndOfTheirDrain) {
  ScriptedProxy proxy(4);
  for (std::size_t i = 0; i < 2; ++i)
    proxy.plan[i] = {[&proxy, i](net::Peer& replica) {
      proxy.replica(i).state->cut = true;
      replica.breaks();
    }};
  proxy.plan[2] = {says(streamed_answer())};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_THAT(proxy.log_lines(), ElementsAre(HasSubstr(R"("suspect":false)")));
}

/// An engine that dies at once leaves an idle connection without a byte, as if that had grown old. That it refuses the
/// next one shows the difference.
TEST(Suspect, IsOneThatKilledReplicasThroughIdleConnections) {
  ScriptedProxy proxy(4);
  for (std::size_t i = 0; i < 3; ++i) {
    proxy.plan[i] = {says(whole_answer("200 OK", completion)), [&proxy, i](net::Peer& replica) {
                       proxy.on_connect[i] = [](net::Peer& next) { next.refuses(ECONNREFUSED); };
                       replica.ends();
                     }};
  }
  proxy.plan[3] = {says(whole_answer("200 OK", completion))};
  const auto client = proxy.client();
  for (int i = 0; i < 4; ++i) {
    client->says(post(chat(false)));
    proxy.run();
  }
  client->got.clear();
  client->says(post(chat(false)));
  proxy.run();
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 502 "));
  EXPECT_THAT(asked(proxy), ElementsAre(2, 2, 1, 1)) << "it is not tried on a third";
  EXPECT_THAT(proxy.log_lines().back(), HasSubstr(R"("suspect":true)"));
}

TEST(ClosedStream, WithoutAnEventGoesElsewhere) {
  ScriptedProxy proxy(2, [](config::Settings& settings) { settings.pools[0].policy = config::Policy::round_robin; });
  for (auto& plan : proxy.plan) plan = {says(streamed_answer())};
  proxy.plan[0] = {[](net::Peer& replica) {
    replica.says("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: ping\n\n");
    replica.ends();
  }};
  for (int i = 0; i < 2; ++i) {
    const auto client = proxy.client(post(chat(true)));
    proxy.run();
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_THAT(client->got, Not(HasSubstr("error")));
  }
  EXPECT_EQ(proxy.retries(Retry::reset), 1u);
}

/// A refusal may bring text, and a first read may bring more events behind it. The client gets another replica's
/// answer, and only that replica's tokens count.
TEST(RefusalInBand, LeavesNoTokenAndNoFirstTokenInTheSeriesOfItsReplica) {
  const std::string refusals[] = {
      R"(data: {"id":"c","choices":[{"index":0,"delta":{"content":"no"},"finish_reason":"abort"}]})"
      "\n\n",
      "data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n" + event("a") + event("b"),
  };
  for (const auto& refusal : refusals) {
    ScriptedProxy proxy(2);
    proxy.plan[0] = {says(stream_head + chunk_of(refusal + "data: [DONE]\n\n") + "0\r\n\r\n")};
    proxy.plan[1] = {says(streamed_answer())};
    const auto client = proxy.client(post(chat(true)));
    proxy.run();
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_EQ(proxy.retries(Retry::in_band_error), 1u);
    EXPECT_EQ(proxy.shard(0).output_tokens.value(), 0u);
    EXPECT_EQ(proxy.shard(0).time_to_first_token.sum() + proxy.shard(0).inter_chunk_latency.sum(), 0u);
    std::uint64_t first_tokens = 0;
    for (std::size_t i = 0; i <= proxy.shard(0).time_to_first_token.bounds().size(); ++i)
      first_tokens += proxy.shard(0).time_to_first_token.bucket(i);
    EXPECT_EQ(first_tokens, 0u);
    EXPECT_EQ(proxy.shard(1).output_tokens.value(), 3u);
    proxy.expect_at_rest();
  }
}

}  // namespace
}  // namespace weir::proxy::serve
