// A head passes through weir: some fields end there, some are added, and the rest goes on untouched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

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
  EXPECT_EQ(sent.field("host"), "127.0.0.1:" + std::to_string(replica.port()));

  for (const auto* name : {"x-bar", "keep-alive"})
    EXPECT_FALSE(got.head.has(name)) << name << " in:\n" << got.head.bytes;
  EXPECT_EQ(got.head.field("x-kept"), "yes");
  EXPECT_EQ(got.head.field("x-weir-replica"), "r0");
  EXPECT_EQ(got.head.field("x-accel-buffering"), "no");
  EXPECT_EQ(got.head.field("cache-control"), "no-cache, no-transform");
  EXPECT_EQ(got.body, script.body(false));
}

TEST(Http, WhatTheReplicaSaysOfCachingStays) {
  const auto script = vllm_chat(3);
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.send(sse_head("cache-control: no-store\r\nX-Accel-Buffering: yes\r\n"));
    exchange.send(chunk(script.body(false)) + std::string(last_chunk));
  });
  WeirUnderTest weir(pool_of({&replica}));

  const auto got = fetch(weir.port(), post(chat, chat_body()));
  EXPECT_EQ(got.head.field("cache-control"), "no-store");
  EXPECT_EQ(got.head.field("x-accel-buffering"), "yes");
}

TEST(Http, ARequestIdIsPassedOnIfItIsOneAndReplacedIfNot) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  WeirUnderTest weir(pool_of({&replica}));

  const auto good = fetch(weir.port(), post(chat, whole_chat_body(), "X-Request-Id: abc.DEF_1-2\r\n"));
  EXPECT_EQ(good.head.field("x-request-id"), "abc.DEF_1-2");
  EXPECT_EQ(replica.requests().at(0).head.field("x-request-id"), "abc.DEF_1-2");

  for (const auto& bad : {std::string("has space"), std::string(129, 'a'), std::string("semi;colon")}) {
    const auto got = fetch(weir.port(), post(chat, whole_chat_body(), "X-Request-Id: " + bad + "\r\n"));
    const auto id = got.head.field("x-request-id").value_or("");
    EXPECT_THAT(id, ::testing::MatchesRegex("[0-9a-f]{32}"));
    EXPECT_EQ(replica.requests().back().head.field("x-request-id"), id);
  }
  std::vector<std::string> logged, of_clients;
  for (const auto& line : weir.log_lines(4)) {
    logged.push_back(member(line, "id"));
    of_clients.push_back(member(line, "client_id"));
  }
  EXPECT_THAT(of_clients, ::testing::UnorderedElementsAre("abc.DEF_1-2", "null", "null", "null"));
  EXPECT_THAT(logged, ::testing::Contains(replica.requests().back().head.field("x-request-id").value_or("")));
  EXPECT_THAT(logged, ::testing::Not(::testing::Contains("abc.DEF_1-2"))) << "a client's id decides nothing";
}

TEST(Http, EveryAnswerNamesItsLineInTheLog) {
  ScriptedReplica replica([](Exchange& exchange) {
    exchange.send(answer("200 OK", "{}", "application/json", "X-Weir-Id: another-weir\r\n"));
  });
  WeirUnderTest weir(pool_of({&replica}));

  const std::vector<Response> answers{
      fetch(weir.port(), post(chat, whole_chat_body(), "X-Request-Id: mine\r\n")),
      fetch(weir.port(), get("/health", "X-Request-Id: mine\r\n"), "GET"),
      fetch(weir.port(), get("/nowhere"), "GET"),
      fetch(weir.port(), post(chat, chat_body("x", "no-such-model"), "X-Request-Id: mine\r\n")),
      fetch(weir.port(), "POST / HTTP/1.1\r\nbroken\r\n\r\n"),
      fetch(weir.port(), post("/v1/completions", "{}", "Content-Length: 99999999999\r\n")),
  };
  // A line may be written after the next request's, by another loop.
  std::map<std::string, boost::json::object> lines;
  for (const auto& line : weir.log_lines(answers.size())) lines[member(line, "id")] = line;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto id = answers[i].head.field("x-weir-id").value_or("none");
    ASSERT_TRUE(lines.contains(id)) << answers[i].head.bytes;
    const bool sent = i == 0 || i == 1 || i == 3;
    EXPECT_EQ(member(lines[id], "client_id"), sent ? "mine" : "null") << i;
    EXPECT_EQ(answers[i].head.field("x-request-id"), sent ? "mine" : id) << i;
  }
}

TEST(Http, ThePrefixOfAReplicaGoesBeforeThePath) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  auto settings = pool_of({&replica});
  settings.pools[0].replicas[0].url += "/models/a";
  WeirUnderTest weir(settings);

  EXPECT_EQ(fetch(weir.port(), post(chat, whole_chat_body())).status, 200u);
  const auto received = replica.only_request();
  EXPECT_EQ(received.target, "/models/a/v1/chat/completions");
  EXPECT_EQ(received.head.field("host"), "127.0.0.1:" + std::to_string(replica.port()));
}

TEST(Http, EmbeddingsAreRelayedAsTheyAreAndTheirTokensCounted) {
  ScriptedReplica replica([](Exchange& exchange) {
    exchange.send(answer("200 OK", R"({"data":[{"embedding":[0.5,1]}],"usage":{"prompt_tokens":4,"total_tokens":4}})"));
  });
  WeirUnderTest weir(pool_of({&replica}));
  EXPECT_EQ(fetch(weir.port(), post("/v1/embeddings", R"({"model":"m","input":["a","b"]})")).status, 200u);
  const auto page = weir.metrics_after(1);
  EXPECT_EQ(page.sum("weir_api_requests_total", {{"outcome", "ok"}, {"api", "openai.embeddings"}}), 1);
  EXPECT_EQ(page.sum("weir_request_duration_seconds_count", {{"api", "openai.embeddings"}}), 1);
  EXPECT_EQ(page.sum("weir_prompt_tokens_total"), 4);
  EXPECT_EQ(page.sum("weir_output_tokens_total"), 0);
  const auto line = weir.log_lines(1).front();
  EXPECT_EQ(member(line, "api"), "openai.embeddings");
  EXPECT_EQ(member(line, "prompt_tokens"), "4");
  EXPECT_EQ(member(line, "output_tokens"), "null");
  EXPECT_NE(member(line, "e2e_s"), "null");
}

TEST(Http, APathThatIsNotInspectedIsRelayedAsItIs) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{\"data\":[1,2]}")); });
  WeirUnderTest weir(pool_of({&replica}));

  const auto got = fetch(weir.port(), post("/v1/moderations?a=b", "{\"input\":\"x\"}", "Accept-Encoding: gzip\r\n"));
  EXPECT_EQ(got.body, "{\"data\":[1,2]}");
  const auto received = replica.only_request();
  EXPECT_EQ(received.target, "/v1/moderations?a=b");
  EXPECT_EQ(received.body, "{\"input\":\"x\"}");
  EXPECT_EQ(weir.metrics_after(1).sum("weir_api_requests_total", {{"outcome", "ok"}, {"api", "other"}}), 1);
}

}  // namespace
}  // namespace weir::integration
