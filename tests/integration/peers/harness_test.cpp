// The harness is tested itself: scripted replica and client talk to each other directly. The other tests can see no
// more of weir than these two can tell apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/peers/http_client.hpp"
#include "tests/integration/peers/metrics_page.hpp"
#include "tests/integration/peers/process.hpp"
#include "tests/integration/peers/scripted_replica.hpp"
#include "tests/integration/peers/streams.hpp"

namespace weir::integration {
namespace {

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
  for (const auto* broken :
       {"3;ext\r\nabc\r\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n", "+3\r\nabc\r\n0\r\n\r\n", "\r\nabc\r\n",
        "03\r\nabc\r\n0\r\n\r\n", "A\r\n0123456789\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n"})
    EXPECT_THROW(fetch(replica.port(), post("/", broken)), NotHttp) << broken;
  EXPECT_EQ(fetch(replica.port(), post("/", "a\r\n0123456789\r\n0\r\n\r\n")).body, "0123456789");
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
