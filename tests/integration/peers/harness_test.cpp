// The harness is tested itself: scripted replica and client talk to each other directly. The other tests can see no
// more of weir than these two can tell apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/integration/peers/http_client.hpp"
#include "tests/integration/peers/metrics_page.hpp"
#include "tests/integration/peers/process.hpp"
#include "tests/integration/peers/scripted_replica.hpp"
#include "tests/integration/peers/streams.hpp"

namespace weir::integration {
namespace {

TEST(Harness, AStreamArrivesWholeWithItsLastChunk) {
  const auto script = vllm_chat(5);
  ScriptedReplica replica([&](Exchange& exchange) { play(exchange, script); });

  const auto got = fetch(replica.port(), post("/v1/chat/completions", chat_body_with_usage()));

  EXPECT_EQ(got.status, 200u);
  EXPECT_EQ(got.body, script.body(true));
  EXPECT_EQ(got.end, BodyEnd::whole);
  EXPECT_EQ(replica.only_request().body, chat_body_with_usage());
  EXPECT_EQ(replica.only_request().head.field("content-type"), "application/json");
}

TEST(Harness, EndsOfBodiesAreToldApart) {
  ScriptedReplica replica([](Exchange& exchange) {
    const auto& path = exchange.request().target;
    exchange.send(path == "/close" ? "HTTP/1.1 200 OK\r\n\r\n" : sse_head());
    exchange.send(path == "/close" ? "abc" : chunk("abc"));
    if (path == "/fin-in-chunk") exchange.send("5\r\nab");
    if (path == "/reset") return exchange.reset();
    exchange.close();
  });
  EXPECT_EQ(fetch(replica.port(), post("/fin", "")).end, BodyEnd::fin);
  EXPECT_EQ(fetch(replica.port(), post("/fin-in-chunk", "")).end, BodyEnd::fin);
  EXPECT_EQ(fetch(replica.port(), post("/fin-in-chunk", "")).body, "abcab");
  EXPECT_EQ(fetch(replica.port(), post("/reset", "")).end, BodyEnd::reset);
  EXPECT_EQ(fetch(replica.port(), post("/close", "")).end, BodyEnd::close);
}

TEST(Harness, ChunksAreReadStrictly) {
  ScriptedReplica replica([](Exchange& exchange) {
    exchange.send(sse_head());
    exchange.send(exchange.request().body);
    exchange.close();
  });
  for (const auto* broken : {"3;ext\r\nabc\r\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n", "+3\r\nabc\r\n0\r\n\r\n",
                             "\r\nabc\r\n", "03\r\nabc\r\n0\r\n\r\n", "A\r\n0123456789\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n"})
    EXPECT_THROW(fetch(replica.port(), post("/", broken)), NotHttp) << broken;
  EXPECT_EQ(fetch(replica.port(), post("/", "a\r\n0123456789\r\n0\r\n\r\n")).body, "0123456789");
}

TEST(Harness, OneByteAtATimeIsTheSameAnswer) {
  const auto script = tgi_stream(3);
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.send_bytewise(sse_head() + chunk(script.body(false)) + std::string(last_chunk));
  });
  EXPECT_EQ(fetch(replica.port(), post("/generate_stream", tgi_body())).body, script.body(false));
}

TEST(Harness, AConnectionServesSeveralRequests) {
  ScriptedReplica replica(
      [](Exchange& exchange) { exchange.send(answer("200 OK", std::to_string(exchange.request().on_connection))); });
  HttpClient client(replica.port());
  client.send(post("/", "first") + post("/", "second"));
  EXPECT_EQ(client.response().body, "1");
  EXPECT_EQ(client.response().body, "2");
  EXPECT_EQ(replica.connections(), 1u);
  EXPECT_EQ(replica.requests().at(1).body, "second");
}

TEST(Harness, TheReplicaSeesTheMomentAClientLeaves) {
  for (const bool reset : {false, true}) {
    std::promise<Clock::time_point> closed;
    ScriptedReplica replica([&](Exchange& exchange) { closed.set_value(exchange.wait_for_close()); });
    HttpClient client(replica.port());
    client.send(post("/", "{}"));
    replica.wait_for_requests(1);
    const auto left = Clock::now();
    reset ? client.reset() : client.close();
    EXPECT_GE(value_of(closed, "the client to leave"), left);
  }
}

TEST(Harness, AReplicaThatIsNotReadFromNoticesIt) {
  Event stalled;
  Progress sent;
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.small_send_buffer();
    const std::string body(16 * 1024 * 1024, 'x');
    exchange.send("HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n");
    exchange.send_until_taken(body, sent, stalled);
  });
  HttpClient client(replica.port(), 16 * 1024);
  client.send(post("/", "{}"));
  stalled.wait("the replica to stall");
  EXPECT_LT(sent.value(), 16u * 1024 * 1024);
  EXPECT_EQ(client.response().body.size(), 16u * 1024 * 1024);
}

TEST(Harness, AnUnfinishedHandlerDoesNotHoldUpTheEndOfATest) {
  const auto began = Clock::now();
  {
    ScriptedReplica replica([](Exchange& exchange) { exchange.wait_for_close(); });
    HttpClient client(replica.port());
    client.send(post("/", "{}"));
    replica.wait_for_requests(1);
    const ScriptedReplica unused([](Exchange&) {});
  }
  EXPECT_LT(Clock::now() - began, soon);
}

TEST(Harness, ProcessesAreWatchedToTheirEnd) {
  const auto done = run({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(done.exit.code, 3);
  EXPECT_EQ(done.output, "out\nerr\n");

  const TemporaryDirectory directory;
  Process sleeper({"/bin/sleep", "600"}, directory.path() / "output");
  EXPECT_FALSE(sleeper.wait(std::chrono::milliseconds(0)));
  EXPECT_GT(sleeper.resident_memory(), 0u);
  sleeper.send(SIGTERM);
  EXPECT_EQ(sleeper.wait(patience).value().signal, SIGTERM);
}

TEST(Harness, MetricsPagesAreSummedByLabels) {
  const MetricsPage page(
      "# HELP a_total x\n# TYPE a_total counter\na_total{x=\"1\",y=\"a\\\"b\"} 2\na_total{x=\"1\",y=\"c\"} "
      "3\na_total{x=\"2\"} 1e2\n# TYPE b gauge\nb 7\n# TYPE h histogram\nh_sum 2.5\n# TYPE unused counter\n");
  EXPECT_EQ(page.sum("a_total"), 105);
  EXPECT_EQ(page.sum("a_total", {{"x", "1"}}), 5);
  EXPECT_EQ(page.sum("a_total", {{"y", "a\"b"}}), 2);
  EXPECT_EQ(page.sum("b"), 7);
  EXPECT_TRUE(page.has("a_total", {{"x", "2"}}));
  EXPECT_FALSE(page.has("a_total", {{"x", "3"}}));
  EXPECT_EQ(page.sum("h_sum"), 2.5);
  EXPECT_EQ(page.sum("h_count"), 0) << "of a family that is there";
  EXPECT_EQ(page.sum("unused", {{"x", "1"}}), 0);
  EXPECT_FALSE(page.has("unused"));
  EXPECT_THROW(page.sum("c"), std::runtime_error);
}

}  // namespace
}  // namespace weir::integration
