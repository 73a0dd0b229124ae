// These tests are about connections and framing: many requests on one connection, old clients, bodies in pieces, and
// what weir answers itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/peers/errors.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::HasSubstr;

/// Answers a whole chat request with its own body's length, a stream with the script.
ScriptedReplica::Handler echo_or_stream(const StreamScript& script) {
  return [&script](Exchange& exchange) {
    if (exchange.request().body.find("\"stream\":true") != std::string::npos) return play(exchange, script);
    exchange.send(answer("200 OK", vllm_whole_chat(exchange.request().body.size())));
  };
}

TEST(Http, AConnectionIsKeptForManyRequestsOfAllKinds) {
  const auto script = vllm_chat(3);
  ScriptedReplica replica(echo_or_stream(script));
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

TEST(Http, AClientThatWantsTheConnectionClosedGetsItClosed) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  WeirUnderTest weir(pool_of({&replica}));

  HttpClient client(weir.port());
  const auto got = client.exchange(post(chat, whole_chat_body(), "Connection: close\r\n"));
  EXPECT_EQ(got.status, 200u);
  EXPECT_EQ(got.head.field("connection"), "close");
  EXPECT_TRUE(client.closed_by_server());
}

TEST(Http, AChunkedRequestReachesTheReplicaInCanonicalFraming) {
  const auto script = vllm_chat(3);
  ScriptedReplica replica(echo_or_stream(script));
  WeirUnderTest weir(pool_of({&replica}));

  const auto body = chat_body("in pieces");
  std::string request = "POST /v1/chat/completions HTTP/1.1\r\nHost: weir.test\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (std::size_t at = 0; at < body.size(); at += 5) {
    auto piece = chunk(std::string_view(body).substr(at, 5));
    if (at == 5) piece.insert(1, ";ext=1");
    request += piece;
  }
  request += "0\r\nX-Trailer: 1\r\n\r\n";
  HttpClient client(weir.port());
  EXPECT_EQ(client.exchange(request).body, script.body(false));
  EXPECT_EQ(client.exchange(request).body, script.body(false)) << "the connection is in step";

  const auto received = replica.requests().at(0);
  EXPECT_THAT(received.body, HasSubstr("in pieces"));
  EXPECT_FALSE(received.head.has("x-trailer"));
}

TEST(Http, ABodyThatWaitsForAGoAheadGetsItFromWeir) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  WeirUnderTest weir(pool_of({&replica}));

  HttpClient client(weir.port());
  const auto request = post(chat, whole_chat_body(), "Expect: 100-continue\r\n");
  const auto head_size = request.find("\r\n\r\n") + 4;
  client.send(request.substr(0, head_size));
  EXPECT_EQ(client.response().status, 100u);
  client.send(request.substr(head_size));
  EXPECT_EQ(client.response().status, 200u);
  EXPECT_FALSE(replica.only_request().head.has("expect"));
  EXPECT_EQ(client.exchange(post(chat, whole_chat_body(), "Expect: a-miracle\r\n")).status, 417u);
}

TEST(Http, WhatWeirAnswersItselfReachesNoReplica) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  auto settings = pool_of({&replica});
  settings.pools[0].more = {{"models", "[\"llama\", \"qwen\"]"}};
  settings.pools.push_back(
      {.name = "other", .replicas = {{.name = "o", .url = replica.url()}}, .more = {{"models", "[\"phi\"]"}}});
  WeirUnderTest weir(settings);

  HttpClient client(weir.port());
  const auto health = client.exchange(get("/health"), "GET");
  EXPECT_EQ(health.status, 200u);
  EXPECT_TRUE(health.head.has("x-request-id"));

  const auto models = client.exchange(get("/v1/models"), "GET");
  EXPECT_EQ(models.status, 200u);
  const auto list = boost::json::parse(models.body).as_object();
  EXPECT_EQ(member(list, "object"), "list");
  std::vector<std::string> names;
  for (const auto& model : list.at("data").as_array()) names.push_back(member(model.as_object(), "id"));
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("llama", "qwen", "phi"));

  expect_error(client.exchange(post("/admin/update_weights", "{}")), 404, "invalid_request_error");
  expect_error(client.exchange(get("/metrics"), "GET"), 404, "invalid_request_error");

  const auto unknown = client.exchange(post(chat, chat_body("x", "gpt-9")));
  expect_error(unknown, 404, "invalid_request_error", "model_not_found");
  for (const auto* word : {"gpt-9", "llama", "qwen", "phi"}) EXPECT_THAT(error_message(unknown), HasSubstr(word));

  EXPECT_EQ(client.exchange(post(chat, chat_body("x", "phi"))).head.field("x-weir-replica"), "o");
  EXPECT_EQ(replica.requests().size(), 1u);
}

TEST(Http, RequestsAndAnswersWithoutABodyKeepTheConnectionInStep) {
  ScriptedReplica replica([](Exchange& exchange) {
    const auto& target = exchange.request().target;
    if (target == "/nothing") return exchange.send("HTTP/1.1 204 No Content\r\n\r\n");
    exchange.send(exchange.request().method == "HEAD" ? "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"
                                                      : answer("200 OK", "", "text/plain"));
  });
  auto settings = pool_of({&replica});
  settings.server = {{"paths", "[\"*\"]"}};
  WeirUnderTest weir(settings);

  HttpClient client(weir.port());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(client.exchange(post(chat, "")).body, "");
    EXPECT_EQ(client.exchange(get("/info"), "GET").status, 200u);
    EXPECT_EQ(client.exchange(get("/nothing"), "GET").status, 204u);
    const auto head = client.exchange("HEAD /info HTTP/1.1\r\nHost: w\r\n\r\n", "HEAD");
    EXPECT_EQ(head.head.field("content-length"), "9");
  }
  // A body that came late behind a 204 or a HEAD would be read as the next answer, so those connections serve no more.
  EXPECT_EQ(replica.connections(), 4u);
}

}  // namespace
}  // namespace weir::integration
