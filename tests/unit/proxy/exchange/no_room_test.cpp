// A replica has no room and says so itself, or none is up: requests wait for that to change.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proxy/exchange/exchange.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Limit;
using metrics::series::Retry;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A replica that says itself that it has no room, and no other to ask.
class NoRoomSaid : public testing::Test {
 protected:
  static ScriptedProxy::Change with_a_queue() {
    return [](config::Settings& settings) { settings.pools.front().queue.requests = 256; };
  }
  balancer::Pool& pool() { return *proxy.snapshot->pools.front()->balancer; }
  /// Lets this time pass for the pool, as the prober does.
  void passes(double seconds) {
    static_cast<void>(pool().health().take_changes(begun + metrics::ticks(config::Seconds(seconds))));
    proxy.run();
  }

  ScriptedProxy proxy{1, with_a_queue()};
  const Clock::time_point begun = Clock::now();
  const std::string no_room = whole_answer("429 Too Many", R"({"error":"full"})", "Retry-After: 2\r\n");
};

TEST_F(NoRoomSaid, SendsTheRequestBackToTheHeadOfTheQueue) {
  proxy.plan[0] = {says(no_room), says(streamed_answer())};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  EXPECT_EQ(client->got, "");
  EXPECT_EQ(pool().figures().queue(Clock::now()).waiting, 1u);
  passes(1.9);
  EXPECT_EQ(client->got, "");
  EXPECT_EQ(proxy.retries(Retry::status), 0u) << "it has not been sent again yet";
  passes(2.2);
  EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_EQ(proxy.retries(Retry::status), 1u);
  EXPECT_THAT(proxy.log_lines(), ElementsAre(AllOf(HasSubstr(R"("outcome":"ok")"), HasSubstr(R"("attempt":2)"))));
  proxy.expect_at_rest();
}

TEST_F(NoRoomSaid, IsToldAtTheDeadlineWhichIsKept) {
  proxy.plan[0] = {says(no_room)};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  passes(5);
  EXPECT_EQ(proxy.retries(Retry::status), 1u);
  proxy.tick(begun + metrics::ticks(config::Seconds(29.8)));
  EXPECT_EQ(client->got, "");
  proxy.tick(begun + metrics::ticks(config::Seconds(31)));
  EXPECT_THAT(client->got, AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr("Retry-After: 2\r\n")));
  EXPECT_EQ(read_answer(client->got).body, R"({"error":"full"})");
  EXPECT_THAT(proxy.log_lines(),
              ElementsAre(AllOf(HasSubstr(R"("outcome":"replica_refused")"), HasSubstr(R"("replica":"gpu0")"))));
  proxy.expect_at_rest();
}

TEST_F(NoRoomSaid, LeavesNoTraceButItsCountWhenTheClientGoes) {
  proxy.plan[0] = {says(no_room)};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  client->breaks();
  proxy.run();
  EXPECT_THAT(proxy.log_lines(), ElementsAre(AllOf(HasSubstr(R"("outcome":"client_abort")"),
                                                   HasSubstr(R"("phase":"queue")"), HasSubstr(R"("replica":"gpu0")"))));
  proxy.expect_at_rest();
}

TEST_F(NoRoomSaid, IsPassedOnWhenAllIsCut) {
  proxy.plan[0] = {says(no_room)};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  proxy.shared.cutting = true;
  proxy.tick_in(0.1);
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 429 "));
}

TEST_F(NoRoomSaid, WithRetryAfterZeroIsNotAskedAgainAtOnce) {
  proxy.plan[0] = {says(whole_answer("503 Busy", "{}", "Retry-After: 0\r\n"))};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  EXPECT_EQ(whole_requests(proxy.connections[0].front()->got), 1u);
  EXPECT_EQ(client->got, "");
}

std::string in_band(const std::string& error) {
  return stream_head + chunk_of("data: " + error + "\n\n") + chunk_of("data: [DONE]\n\n") + "0\r\n\r\n";
}

TEST_F(NoRoomSaid, InsideA200IsWaitedOutToo) {
  const auto overload = in_band(R"({"error":{"message":"The request queue is full.","code":503}})");
  proxy.plan[0] = {says(overload), says(streamed_answer())};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  EXPECT_EQ(client->got, "");
  EXPECT_EQ(pool().figures().queue(Clock::now()).waiting, 1u);
  passes(1.2);
  EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_THAT(client->got, Not(HasSubstr("queue is full")));
  EXPECT_EQ(proxy.retries(Retry::in_band_error), 1u);
  EXPECT_EQ(proxy.retries(Retry::status), 0u);
  proxy.expect_at_rest();
}

TEST_F(NoRoomSaid, InsideA200IsToldAtTheDeadline) {
  proxy.plan[0] = {says(in_band(R"({"error":"Model is overloaded","error_type":"overloaded"})"))};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  EXPECT_EQ(client->got, "");
  proxy.tick(begun + metrics::ticks(config::Seconds(31)));
  EXPECT_EQ(read_answer(client->got).status, 200u);
  EXPECT_THAT(read_answer(client->got).body, HasSubstr("Model is overloaded"));
  EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_THAT(proxy.log_lines(), ElementsAre(HasSubstr(R"("outcome":"upstream_error")")));
  proxy.expect_at_rest();
}

TEST_F(NoRoomSaid, IsNotWhatAnotherErrorInsideA200Says) {
  proxy.plan[0] = {says(in_band(R"({"error":{"message":"prompt is empty","code":400}})"))};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  EXPECT_THAT(client->got, HasSubstr("prompt is empty"));
  EXPECT_EQ(pool().figures().queue(Clock::now()).waiting, 0u);
}

/// Another replica has it at once, so that it waits nowhere: it looks at its deadline itself.
TEST(NoRoom, OfOneReplicaAfterTheOtherIsToldOnceTheQueuesTimeIsOver) {
  for (const double time : {0.0, 30.0}) {
    ScriptedProxy proxy(2, [time](config::Settings& settings) {
      settings.limits.retry_budget = 0;
      settings.pools.front().queue.requests = 256;
      settings.pools.front().queue.time = config::Seconds(time);
    });
    proxy.plan.fill({says(whole_answer("429 Too Many", R"({"error":"full"})"))});
    const auto client = proxy.client(post(chat(true)));
    proxy.run();
    EXPECT_THAT(asked(proxy), ElementsAre(1, 1, 0, 0));
    EXPECT_EQ(read_answer(client->got).body, time == 0 ? R"({"error":"full"})" : "");
    EXPECT_EQ(proxy.limit_hits(Limit::queue_time), time == 0 ? 1u : 0u);
  }
}

/// The only replica refuses connections.
TEST(NoneUp, RequestsWaitAndAreAnsweredWhenOneComesBack) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.pools.front().queue.requests = 256; });
  auto& pool = *proxy.snapshot->pools.front()->balancer;
  proxy.on_connect[0] = [](net::Peer& replica) { replica.refuses(ECONNREFUSED); };
  proxy.plan[0] = {says(streamed_answer())};
  std::vector<std::shared_ptr<net::Peer>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(proxy.client(post(chat(true))));
    proxy.run();
  }
  EXPECT_EQ(proxy.connections[0].size(), 1u) << "the others know that it refuses";
  EXPECT_EQ(pool.figures().queue(Clock::now()).waiting, 5u);
  proxy.on_connect[0] = nullptr;
  // A replica that has just failed a request is left alone for a second.
  pool.health().report(proxy.replica().key, balancer::Sign::probe_passed, Clock::now() + std::chrono::milliseconds(1100));
  proxy.run();
  for (const auto& client : clients) EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_EQ(proxy.retries(Retry::connect), 1u);
  proxy.expect_at_rest();
}

TEST(NoneUp, IsA503AtTheDeadlineWhichIsLater) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.pools.front().queue.requests = 256; });
  proxy.on_connect[0] = [](net::Peer& replica) { replica.refuses(ECONNREFUSED); };
  const auto first = proxy.client(post(chat(true))), second = proxy.client(post(chat(true)));
  proxy.run();
  proxy.tick_in(59);
  EXPECT_EQ(first->got + second->got, "");
  proxy.tick_in(61);
  for (const auto& client : {first, second})
    EXPECT_THAT(client->got, AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("no replica of pool 'pool' is up"),
                                   HasSubstr("retry-after-ms: ")));
  for (const auto& line : proxy.log_lines())
    EXPECT_THAT(line, AllOf(HasSubstr(R"("outcome":"rejected")"), HasSubstr(R"("replica":null)")));
  proxy.expect_at_rest();
}

}  // namespace
}  // namespace weir::proxy::serve
