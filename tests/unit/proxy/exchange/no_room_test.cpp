// A replica has no room and says so itself, or none is up: requests wait for that to change.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proxy/exchange/exchange.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Retry;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string no_room = whole_answer("429 Too Many", R"({"error":"full"})", "Retry-After: 2\r\n");

std::string in_band(const std::string& error) {
  return sse_head() + chunk("data: " + error + "\n\n") + chunk(done_event) + last_chunk;
}

const std::string role_event =
    R"(data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]})"
    "\n\n";
const std::string given_up_event =
    R"(data: {"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]})"
    "\n\n";

/// A replica that says itself that it has no room, and no other to ask.
struct Full {
  balancer::Pool& pool() { return *proxy.snapshot->pools.front()->balancer; }
  /// Lets this time pass for the pool, as the prober does.
  void passes(double seconds) {
    static_cast<void>(pool().health().take_changes(begun + metrics::ticks(config::Seconds(seconds))));
    proxy.run();
  }

  ScriptedProxy proxy{1, [](config::Settings& settings) { settings.pools.front().queue.requests = 256; }};
  const Clock::time_point begun = Clock::now();
};

TEST(NoRoomSaid, SendsTheRequestBackToTheHeadOfTheQueue) {
  const struct {
    std::string answer;
    Retry reason;
    double early, late;  ///< The request is sent again between these seconds.
  } rows[]{{no_room, Retry::status, 1.9, 2.2},
           {in_band(R"({"error":{"message":"The queue is full.","code":503}})"), Retry::in_band_error, 0.5, 1.2},
           {in_band(R"({"error":{"message":"Model is overloaded","http_status_code":422}})"), Retry::in_band_error, 0.5,
            1.2},
           {sse_head() + chunk(role_event) + chunk(given_up_event) + chunk(done_event) + last_chunk,
            Retry::in_band_error, 0.5, 1.2}};
  for (const auto& row : rows)
    for (const std::size_t piece : {net::Peer::any, std::size_t{1}}) {
      Full full;
      full.proxy.plan[0] = {says(row.answer, piece), says(streamed_answer())};
      const auto client = full.proxy.asks(post(chat(true)));
      EXPECT_EQ(full.pool().figures().queue(Clock::now()).waiting, 1u);
      full.passes(row.early);
      EXPECT_EQ(client->got, "");
      EXPECT_EQ(full.proxy.retries(row.reason), 0u) << "it has not been sent again yet";
      full.passes(row.late);
      EXPECT_TRUE(read_answer(client->got).whole);
      EXPECT_THAT(client->got, Not(AnyOf(HasSubstr("full"), HasSubstr("overloaded"), HasSubstr("abort"))));
      EXPECT_EQ(full.proxy.retries(row.reason), 1u);
      EXPECT_THAT(full.proxy.log_lines(),
                  ElementsAre(AllOf(HasSubstr(R"("outcome":"ok")"), HasSubstr(R"("attempt":2)"))));
      full.proxy.expect_at_rest();
    }
}

TEST(NoRoomSaid, IsToldAtTheDeadlineWhichIsKept) {
  const struct {
    std::string answer, field, body;
    bool asks_for_time;
  } rows[]{{no_room, "HTTP/1.1 429 Too Many Requests\r\n", R"({"error":"full"})", true},
           {in_band(R"({"error":"Model is overloaded","error_type":"overloaded"})"), "HTTP/1.1 200 OK\r\n",
            "Model is overloaded", false}};
  for (const auto& row : rows) {
    Full full;
    full.proxy.plan[0] = {says(row.answer)};
    const auto client = full.proxy.asks(post(chat(true)));
    full.passes(5);
    full.proxy.tick(full.begun + metrics::ticks(config::Seconds(29.8)));
    EXPECT_EQ(client->got, "");
    full.proxy.tick(full.begun + metrics::ticks(config::Seconds(31)));
    EXPECT_THAT(client->got, StartsWith(row.field));
    EXPECT_EQ(client->got.find("Retry-After: 2\r\n") != std::string::npos, row.asks_for_time);
    EXPECT_THAT(read_answer(client->got).body, HasSubstr(row.body));
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_THAT(full.proxy.log_lines(), ElementsAre(AllOf(HasSubstr(R"("outcome":"replica_refused")"),
                                                          HasSubstr(R"("replica":"gpu0")"))));
    full.proxy.expect_at_rest();
  }
}

TEST(NoRoomSaid, LeavesNoTraceButItsCountWhenTheClientGoes) {
  Full full;
  full.proxy.plan[0] = {says(no_room)};
  const auto client = full.proxy.asks(post(chat(true)));
  full.proxy.breaks(*client);
  EXPECT_THAT(full.proxy.log_lines(),
              ElementsAre(AllOf(HasSubstr(R"("outcome":"client_abort")"), HasSubstr(R"("phase":"queue")"),
                                HasSubstr(R"("replica":"gpu0")"), HasSubstr(R"("status":null)"),
                                HasSubstr(R"("replica_status":429)"))));
  full.proxy.expect_at_rest();
}

TEST(NoRoomSaid, WithRetryAfterZeroIsNotAskedAgainAtOnce) {
  Full full;
  full.proxy.plan[0] = {says(whole_answer("503 Busy", "{}", "Retry-After: 0\r\n"))};
  const auto client = full.proxy.asks(post(chat(true)));
  full.passes(0.9);
  EXPECT_EQ(whole_requests(full.proxy.upstream().got), 1u);
  EXPECT_EQ(client->got, "");
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
