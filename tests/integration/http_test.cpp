// HTTP as weir speaks it on both sides: framing of its own, connections that serve several requests, headers that end
// here, and requests that go no further.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "errors.hpp"
#include "streams.hpp"
#include "weir_under_test.hpp"

namespace weir::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto chat = "/v1/chat/completions";

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

TEST(Http, PipelinedRequestsAreAnsweredInOrder) {
  const auto script = vllm_chat(3);
  ScriptedReplica replica(echo_or_stream(script));
  WeirUnderTest weir(pool_of({&replica}));

  HttpClient client(weir.port());
  client.send(post(chat, chat_body()) + post(chat, whole_chat_body("a")) + post(chat, whole_chat_body("four")));
  EXPECT_EQ(client.response().body, script.body(false));
  EXPECT_EQ(client.response().body, vllm_whole_chat(whole_chat_body("a").size()));
  EXPECT_EQ(client.response().body, vllm_whole_chat(whole_chat_body("four").size()));
  EXPECT_EQ(weir.metrics_after(3).sum("weir_requests_total", {{"outcome", "ok"}}), 3);
}

TEST(Http, AnOldClientGetsAStreamWithoutChunksThatEndsWithTheConnection) {
  const auto script = vllm_chat(4);
  ScriptedReplica replica(echo_or_stream(script));
  WeirUnderTest weir(pool_of({&replica}));

  HttpClient client(weir.port());
  auto request = post(chat, chat_body());
  request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
  const auto got = client.exchange(request);
  EXPECT_EQ(got.status, 200u);
  EXPECT_FALSE(got.head.has("transfer-encoding"));
  EXPECT_EQ(got.body, script.body(false));
  EXPECT_EQ(got.end, BodyEnd::close);
  EXPECT_EQ(replica.only_request().version, "HTTP/1.1");
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

TEST(Http, APathThatIsNotInspectedIsRelayedAsItIs) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{\"data\":[1,2]}")); });
  WeirUnderTest weir(pool_of({&replica}));

  const auto got = fetch(weir.port(), post("/v1/embeddings?a=b", "{\"input\":\"x\"}", "Accept-Encoding: gzip\r\n"));
  EXPECT_EQ(got.body, "{\"data\":[1,2]}");
  const auto received = replica.only_request();
  EXPECT_EQ(received.target, "/v1/embeddings?a=b");
  EXPECT_EQ(received.body, "{\"input\":\"x\"}");
  EXPECT_EQ(weir.metrics_after(1).sum("weir_requests_total", {{"outcome", "ok"}, {"api", "other"}}), 1);
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
  const auto lines = weir.log_lines(4);
  EXPECT_NE(member(lines[0], "id"), "abc.DEF_1-2") << "a client's id decides nothing";
  EXPECT_EQ(member(lines[3], "id"), replica.requests().back().head.field("x-request-id").value_or(""));
}

TEST(Http, SizesAreLimited) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  auto settings = pool_of({&replica});
  settings.limits = {{"request_body", "1000"}};
  WeirUnderTest weir(settings);

  const std::string large(1001, 'x');
  for (const auto& [request, status] :
       {std::pair{post(chat, "").insert(0, "").replace(post(chat, "").find("Length: 0"), 9, "Length: 1001"), 413u},
        std::pair{"POST /v1/chat/completions HTTP/1.1\r\nHost: w\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(large) +
                      std::string(last_chunk),
                  413u},
        std::pair{post(chat, "{}", "X-Long: " + std::string(70'000, 'x') + "\r\n"), 431u},
        std::pair{post("/v1/" + std::string(9'000, 'x'), "{}"), 414u}}) {
    HttpClient client(weir.port());
    const auto got = client.exchange(request);
    expect_error(got, status, "invalid_request_error");
    EXPECT_EQ(got.head.field("connection"), "close");
    EXPECT_TRUE(client.closed_by_server());
  }
  EXPECT_EQ(replica.connections(), 0u);
  const auto metrics = weir.metrics_after(4);
  EXPECT_EQ(metrics.sum("weir_limit_hits_total", {{"limit", "request_body"}}), 2);
  EXPECT_EQ(metrics.sum("weir_limit_hits_total", {{"limit", "request_head"}}), 2);
  EXPECT_EQ(fetch(weir.port(), post(chat, std::string(1000, ' '))).status, 200u) << "the limit itself is allowed";
}

TEST(Http, RequestsThatCouldBeReadInTwoWaysAreRefusedAndTheConnectionEnds) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  WeirUnderTest weir(pool_of({&replica}));

  const std::string start = "POST /v1/chat/completions HTTP/1.1\r\n";
  const struct {
    unsigned status;
    std::string request;
  } ambiguous[]{
      {400, start + "Host: w\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {400, start + "Host: w\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n"},
      {400, start + "Host: w\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}"},
      {400, start + "Host: w\r\nContent-Length: +2\r\n\r\n{}"},
      {501, start + "Host: w\r\nTransfer-Encoding: gzip\r\n\r\n"},
      {400, start + "Content-Length: 2\r\n\r\n{}"},
      {400, start + "Host: w\r\nHost: v\r\nContent-Length: 2\r\n\r\n{}"},
      {400, start + "Host: w\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\n{}"},
      {400, start + "Host: w\r\nX : a\r\nContent-Length: 2\r\n\r\n{}"},
      {400, start + "Host: w\r\nConnection: host\r\nContent-Length: 2\r\n\r\n{}"},
      {400, start + "Host: w\r\nTransfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n"},
      {400, "POST /v1/chat/completions HTTP/1.0\r\nHost: w\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {505, "POST /v1/chat/completions HTTP/2.0\r\nHost: w\r\nContent-Length: 2\r\n\r\n{}"},
  };
  for (const auto& [status, request] : ambiguous) {
    HttpClient client(weir.port());
    const auto got = client.exchange(request);
    expect_error(got, status, "invalid_request_error");
    EXPECT_TRUE(client.closed_by_server()) << request;
  }
  EXPECT_EQ(replica.connections(), 0u);
  EXPECT_EQ(weir.metrics_after(std::size(ambiguous)).sum("weir_requests_total", {{"outcome", "bad_request"}}),
            std::size(ambiguous));
}

TEST(Http, AnswersThatCouldBeReadInTwoWaysAre502) {
  const std::string answers[]{
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxx",
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
      "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
      "SSH-2.0-OpenSSH_9.2\r\n\r\n",
      "HTTP/1.1 200 OK\r\nX-Long: " + std::string(300'000, 'x') + "\r\n\r\n",
  };
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.send(answers[exchange.request().number - 1]);
    exchange.wait_for_close();
    exchange.close();
  });
  WeirUnderTest weir(pool_of({&replica}));

  for (std::size_t i = 0; i < std::size(answers); ++i) {
    const auto got = fetch(weir.port(), post(chat, whole_chat_body()));
    expect_error(got, 502, "upstream_error");
  }
  EXPECT_EQ(replica.connections(), std::size(answers)) << "each of these connections dies";
}

TEST(Http, InterimAnswersAreSkippedAndBytesBehindAnAnswerReachNobody) {
  ScriptedReplica replica([](Exchange& exchange) {
    exchange.send("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
    exchange.send(answer("200 OK", "{\"n\":" + std::to_string(exchange.request().number) + "}") +
                  answer("200 OK", "{\"poison\":1}"));
  });
  auto settings = pool_of({&replica});
  settings.server = {{"threads", "1"}};
  WeirUnderTest weir(settings);

  for (int i = 1; i <= 3; ++i)
    EXPECT_EQ(fetch(weir.port(), post(chat, whole_chat_body())).body, "{\"n\":" + std::to_string(i) + "}");
}

TEST(Http, ARefusalThatComesBeforeTheBodyIsSentWholeIsNotLost) {
  constexpr std::size_t size = 12 * 1024 * 1024;
  Socket listener = Socket::listen(-1);
  const auto refusing = std::async(std::launch::async, [&] {
    auto socket = listener.accept();
    MessageReader reader(socket);
    if (!reader.head()) throw PeerGone("no request came");
    socket.send(answer("400 Bad Request", "{\"error\":\"too much\"}", "application/json", "connection: close\r\n"));
    socket.finish_sending();
    socket.wait_for_close();
  });
  WeirSettings settings{
      .pools = {{.name = "chat",
                 .replicas = {{.name = "r0", .url = "http://127.0.0.1:" + std::to_string(listener.port())}}}}};
  WeirUnderTest weir(settings);

  const auto got = fetch(weir.port(), post(chat, whole_chat_body(std::string(size, 'x'))));
  EXPECT_EQ(got.status, 400u);
  EXPECT_EQ(got.body, "{\"error\":\"too much\"}");
}

}  // namespace
}  // namespace weir::integration
