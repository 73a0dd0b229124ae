// weir refuses requests and answers that could be read in two ways, and what is larger than it may be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <utility>

#include "tests/integration/peers/errors.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

TEST(Http, SizesAreLimited) {
  ScriptedReplica replica([](Exchange& exchange) { exchange.send(answer("200 OK", "{}")); });
  auto settings = pool_of({&replica});
  settings.limits = {{"request_body", "1024"}};
  WeirUnderTest weir(settings);

  const std::string large(1025, 'x');
  for (const auto& [request, status] :
       {std::pair{post(chat, large).substr(0, post(chat, large).size() - large.size()), 413u},
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
  EXPECT_EQ(metrics.sum("weir_limit_hits_total", {{"limit", "request_head"}}), 1) << "a request line has a fixed limit";
  EXPECT_EQ(fetch(weir.port(), post(chat, std::string(1024, ' '))).status, 200u) << "the limit itself is allowed";
}

TEST(Http, TwoWeirsThatFaceEachOtherEndARequest) {
  const auto one_port = free_port(), other_port = free_port();
  const auto facing = [](std::uint16_t port, std::uint16_t replica) {
    WeirSettings settings;
    settings.pools = {{"chat", {{"r0", "http://" + at_loopback(replica)}}}};
    settings.server = {{"listen", '"' + at_loopback(port) + '"'}};
    return settings;
  };
  WeirUnderTest one(facing(one_port, other_port)), other(facing(other_port, one_port));
  auto got = fetch(one_port, post(chat, whole_chat_body()));
  // The first weir may have found its replica down before the second one was there.
  for (const auto begun = Clock::now(); got.status == 503 && Clock::now() - begun < patience;)
    got = fetch(one_port, post(chat, whole_chat_body()));
  EXPECT_EQ(got.status, 508u) << got.body;
  EXPECT_THAT(got.body, testing::HasSubstr("loop_detected"));
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

TEST(Http, ARefusalThatComesBeforeTheBodyIsSentWholeIsNotLost) {
  constexpr std::size_t size = 12 * 1024 * 1024;
  Socket listener = Socket::listen(-1);
  const auto refusing = std::async(std::launch::async, [&] {
    for (;;) {
      auto socket = listener.accept();
      MessageReader reader(socket);
      const auto head = reader.head();
      if (!head) throw PeerGone("no request came");
      if (head->start_line.starts_with("GET ")) continue;  // weir asks for the models.
      socket.send(answer("400 Bad Request", "{\"error\":\"too much\"}", "application/json", "connection: close\r\n"));
      socket.finish_sending();
      socket.wait_for_close();
      return;
    }
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
