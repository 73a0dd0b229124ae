// HTTP on the wire, from a client through weir to a replica and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

TEST(Http, AConnectionIsKeptForManyRequestsOfAllKinds) {
  const auto script = vllm_chat(3);
  ScriptedReplica replica([&](Exchange& exchange) {
    if (exchange.request().body.find("\"stream\":true") != std::string::npos) return play(exchange, script);
    exchange.send(answer("200 OK", vllm_whole_chat(exchange.request().body.size())));
  });
  WeirUnderTest weir(pool_of({&replica}));

  HttpClient client(weir.port());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client.exchange(post(chat, chat_body())).body, script.body(false));
    EXPECT_EQ(client.exchange(post(chat, whole_chat_body())).body, vllm_whole_chat(whole_chat_body().size()));
    EXPECT_EQ(client.exchange(get("/v1/models"), "GET").status, 200u);
    EXPECT_EQ(client.exchange(get("/nowhere"), "GET").status, 404u);
  }
  EXPECT_EQ(replica.connections(), 1u) << "and so is the one to the replica";
}

TEST(Http, HopByHopFieldsEndAtWeirOnBothSides) {
  const auto script = vllm_chat(3);
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.send(sse_head("connection: x-bar, keep-alive\r\nx-bar: 1\r\nkeep-alive: timeout=5\r\nx-kept: yes\r\n"));
    exchange.send(chunk(script.body(false)) + std::string(last_chunk));
  });
  WeirUnderTest weir(pool_of({&replica}));

  const auto got = fetch(
      weir.port(), post(chat, chat_body(),
                        "Connection: x-foo, keep-alive\r\nX-Foo: secret\r\nKeep-Alive: timeout=9\r\nTE: trailers\r\n"
                        "Proxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\nx_odd: 1\r\n"
                        "X-Kept: yes\r\nAuthorization: Bearer k\r\nAccept-Encoding: gzip\r\n"
                        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"));

  const auto& sent = replica.only_request().head;
  for (const auto* name :
       {"x-foo", "keep-alive", "te", "proxy-authorization", "proxy-connection", "upgrade", "x_odd", "accept-encoding"})
    EXPECT_FALSE(sent.has(name)) << name << " in:\n" << sent.bytes;
  EXPECT_EQ(sent.field("x-kept"), "yes");
  EXPECT_EQ(sent.field("authorization"), "Bearer k");
  EXPECT_EQ(sent.field("traceparent"), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  EXPECT_EQ(sent.field("host"), at_loopback(replica.port()));

  for (const auto* name : {"x-bar", "keep-alive"})
    EXPECT_FALSE(got.head.has(name)) << name << " in:\n" << got.head.bytes;
  EXPECT_EQ(got.head.field("x-kept"), "yes");
  EXPECT_EQ(got.head.field("x-weir-replica"), "r0");
  EXPECT_EQ(got.head.field("x-accel-buffering"), "no");
  EXPECT_EQ(got.head.field("cache-control"), "no-cache, no-transform");
  EXPECT_EQ(got.body, script.body(false));
}

TEST(Http, WithKeepAliveAClientSeesLifeBeforeItsAnswerWhichComesBehindThat) {
  const auto script = vllm_chat(3);
  Event go_on;
  std::atomic<bool> refuses{false};
  ScriptedReplica replica([&](Exchange& exchange) {
    go_on.wait("the client to see life");
    if (!refuses) return play(exchange, script);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    exchange.send(answer("400 Bad Request", R"({"error":"no"})"));
  });
  auto settings = pool_of({&replica});
  settings.pools[0].more.insert({"keep_alive", "\"100ms\""});
  WeirUnderTest weir(settings);

  const std::string comment = ": weir keep-alive\n\n";
  const auto without_comments = [&](std::string body) {
    for (auto at = body.find(comment); at != std::string::npos; at = body.find(comment)) body.erase(at, comment.size());
    return body;
  };
  HttpClient client(weir.port());
  client.send(post(chat, chat_body()));
  auto got = client.response_head();
  EXPECT_EQ(got.status, 200u);
  client.read_until(got, comment + comment);
  go_on.set();
  client.rest(got);
  EXPECT_EQ(without_comments(got.body), script.body(false));
  refuses = true;
  got = client.exchange(post(chat, chat_body()));
  EXPECT_EQ(got.status, 200u);
  EXPECT_THAT(without_comments(got.body),
              testing::HasSubstr(R"({"error":{"message":"no","type":"invalid_request_error")"));
}

TEST(Http, UsageIsAskedOnceOfAReplicaThatDoesNotKnowItWhichGetsTheOriginalThen) {
  auto script = vllm_chat(4);
  ScriptedReplica replica([&](Exchange& exchange) {
    if (asks_for_usage(exchange.request()))
      return exchange.send(answer("400 Bad Request", "{\"error\":{\"message\":\"unknown field stream_options\"}}"));
    play(exchange, script);
  });
  WeirUnderTest weir(pool_of({&replica}));

  for (int i = 0; i < 3; ++i) {
    const auto got = fetch(weir.port(), post(chat, chat_body()));
    EXPECT_EQ(got.status, 200u);
    EXPECT_EQ(got.body, script.body(false));
    weir.metrics_when("injection to be off", [](const MetricsPage& page) {
      return page.sum("weir_injection_disabled", {{"replica", "r0"}}) == 1;
    });
  }
  const auto requests = replica.requests();
  ASSERT_EQ(requests.size(), 4u) << "refused, the original, and two that come without";
  EXPECT_TRUE(asks_for_usage(requests[0]));
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(requests[i].body, chat_body());
  const auto metrics = weir.metrics_after(3);
  EXPECT_EQ(metrics.sum("weir_retries_total", {{"reason", "injection_refused"}}), 1);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "ok"}}), 3);
  weir.wait_until_said("replica 'r0' refuses stream_options");
}

TEST(Http, UsageIsNotAskedWhileAReplicaTellsItsCountsUnasked) {
  const std::string with_timings =
      R"(data: {"choices":[{"finish_reason":"stop","index":0,"delta":{"content":"a"}}],"created":1,"id":"c","model":"m",)"
      R"("object":"chat.completion.chunk","timings":{"cache_n":0,"prompt_n":9,"predicted_n":1}})"
      "\n\ndata: [DONE]\n\n";
  std::atomic<bool> is_llamacpp{true};
  ScriptedReplica replica([&](Exchange& exchange) {
    if (!is_llamacpp) return play(exchange, vllm_chat(4));
    exchange.send(sse_head() + chunk(with_timings) + std::string(last_chunk));
  });
  WeirUnderTest weir(pool_of({&replica}));
  std::size_t requests = 0;
  const auto asks = [&] {
    fetch(weir.port(), post(chat, chat_body()));
    weir.log_lines(++requests);  // weir has learned from it by then.
    return asks_for_usage(replica.requests().back());
  };
  EXPECT_TRUE(asks());
  EXPECT_FALSE(asks());
  is_llamacpp = false;
  EXPECT_FALSE(asks());
  EXPECT_TRUE(asks()) << "another engine has taken the replica's place";
}

}  // namespace
}  // namespace weir::integration
