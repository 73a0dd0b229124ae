#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lab/load/connection.hpp"
#include "lab/load/measure.hpp"

namespace weir::lab::load {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

/// Answers one request with these bytes, which fit in one read.
class OneAnswer {
 public:
  OneAnswer(asio::io_context& io, std::string bytes)
      : acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)), socket_(io), bytes_(std::move(bytes)) {
    acceptor_.async_accept(socket_, [this](boost::system::error_code) {
      socket_.async_read_some(asio::buffer(request_), [this](boost::system::error_code, std::size_t) {
        asio::async_write(socket_, asio::buffer(bytes_), [](boost::system::error_code, std::size_t) {});
      });
    });
  }
  tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }

 private:
  tcp::acceptor acceptor_;
  tcp::socket socket_;
  std::string bytes_;
  char request_[1024];
};

TEST(Connection, AnAnswerEndsWithItsLastReadNotWithItsParsing) {
  const std::string body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
  asio::io_context io;
  OneAnswer server(io, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: " +
                           std::to_string(body.size()) + "\r\n\r\n" + body);
  Later later;
  std::optional<Result> ended;
  const Server to{server.endpoint()};
  const auto connection = std::make_shared<Connection>(io, to, later);
  Outgoing outgoing;
  outgoing.bytes = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
  connection->run(std::move(outgoing), [&](const std::shared_ptr<Connection>&, Result r) { ended = std::move(r); });
  io.run();  // The answer has been read, and waits to be parsed.
  ASSERT_FALSE(ended);
  const auto read = Clock::now();
  while (Clock::now() == read) {
  }
  while (later.run_one()) {
    io.restart();
    io.run();
  }
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->outcome, "ok") << ended->detail;
  EXPECT_LE(ended->ended, read);
  EXPECT_EQ(ended->ended, ended->stream.answer.first_token) << "the last read brought both";
}

TEST(Connection, AnAnswerIsOkWhereItIsToWeir) {
  const std::string said = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
  const std::string stop = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
  const std::string events = "content-type: text/event-stream\r\n";
  const struct {
    std::string head, body, outcome, detail;
  } rows[]{{events, said + stop + "data: [DONE]\n\n", "ok", ""},
           {events, said + stop + "data: [DONE]", "ok", ""},
           {events, said + stop, "ok", ""},
           {"", said + stop, "ok", ""},
           {events, said, "truncated", "the stream ended without"},
           {"content-type: text/html\r\n", "<p>hello", "invalid", "expected text/event-stream, got \"text/html\""},
           {"content-type: application/json\r\n", "{}", "invalid", "expected text/event-stream, got"},
           {events + "content-encoding: gzip\r\n", "\x1f\x8b", "invalid", "the answer is coded"},
           {events, said + "data: {\"error\":{\"message\":\"no memory\"}}\n\n", "in_band", "no memory"}};
  for (const auto& row : rows) {
    asio::io_context io;
    OneAnswer server(io, "HTTP/1.1 200 OK\r\n" + row.head + "content-length: " + std::to_string(row.body.size()) +
                             "\r\n\r\n" + row.body);
    Later later;
    std::optional<Result> ended;
    const Server to{server.endpoint()};
    Outgoing outgoing;
    outgoing.bytes = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
    const auto connection = std::make_shared<Connection>(io, to, later);
    connection->run(std::move(outgoing), [&](const std::shared_ptr<Connection>&, Result r) { ended = std::move(r); });
    while (!ended && (io.run_one() > 0 || later.run_one())) {
      while (later.run_one()) continue;
      io.restart();
    }
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->outcome, row.outcome) << row.head << row.body;
    EXPECT_THAT(ended->detail, testing::StartsWith(row.detail));
  }
}

/// Speaks TLS with the certificate for localhost and 127.0.0.1, and gives the same answer to each request.
asio::awaitable<void> answer_over_tls(tcp::socket socket, asio::ssl::context& context, std::string answer) {
  asio::ssl::stream<tcp::socket> stream(std::move(socket), context);
  co_await stream.async_handshake(asio::ssl::stream_base::server, asio::use_awaitable);
  std::array<char, 4096> request;
  while (true) {  // An exception ends it: the client has gone.
    co_await stream.async_read_some(asio::buffer(request), asio::use_awaitable);
    co_await asio::async_write(stream, asio::buffer(answer), asio::use_awaitable);
  }
}

TEST(Connection, OverTlsDemandsTheHostsCertificateOfAnAuthorityAndIsKept) {
  const std::string tls = WEIR_TEST_DATA "/tls/";
  const std::string body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
  const struct {
    std::string ca, host, outcome, detail;
  } rows[]{{tls + "ca.pem", "127.0.0.1", "ok", ""},
           {tls + "ca.pem", "localhost", "ok", ""},
           {tls + "ca.pem", "127.0.0.2", "connect", "TLS: certificate verify failed: IP address mismatch"},
           {tls + "ca.pem", "example.test", "connect", "TLS: certificate verify failed: hostname mismatch"},
           {tls + "stranger_ca.pem", "localhost", "connect", "TLS: certificate verify failed: "}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.ca + ' ' + row.host);
    asio::io_context io;
    asio::ssl::context shown(asio::ssl::context::tls_server);
    shown.use_certificate_chain_file(tls + "local.pem");
    shown.use_private_key_file(tls + "local.key", asio::ssl::context::pem);
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    acceptor.async_accept([&](boost::system::error_code, tcp::socket socket) {
      asio::co_spawn(io,
                     answer_over_tls(std::move(socket), shown,
                                     "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: " +
                                         std::to_string(body.size()) + "\r\n\r\n" + body),
                     asio::detached);
    });
    Later later;
    const Server to{acceptor.local_endpoint(), net::client_context(row.ca), row.host};
    const auto connection = std::make_shared<Connection>(io, to, later);
    for (int request = 0; request < 2; ++request) {
      std::optional<Result> ended;
      Outgoing outgoing;
      outgoing.bytes = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
      connection->run(std::move(outgoing), [&](const std::shared_ptr<Connection>&, Result r) { ended = std::move(r); });
      while (!ended && (io.run_one() > 0 || later.run_one())) {
        while (later.run_one()) continue;
      }
      ASSERT_TRUE(ended);
      EXPECT_EQ(ended->outcome, row.outcome) << ended->detail;
      EXPECT_EQ(ended->detail.substr(0, row.detail.size()), row.detail);
      EXPECT_EQ(connection->reusable(), row.outcome == "ok")
          << "the second request goes out on the connection of the first";
      if (row.outcome != "ok") break;
      EXPECT_EQ(ended->stream.answer.token_events, 1u);
    }
    connection->fail("over", "");  // Closes it, so that the server ends.
    io.run();
  }
  EXPECT_THROW(net::client_context("/nowhere/ca.pem"), std::invalid_argument);
}

TEST(Target, TheEndOfABaseUrlOfSdksIsDropped) {
  for (const char* url : {"http://h:8000/v1", "http://h:8000/v1/"}) {
    EXPECT_EQ(without_v1(url), "http://h:8000") << url;
  }
  EXPECT_EQ(without_v1("http://h/engine/v1"), "http://h/engine");
  for (const char* url : {"http://h:8000", "http://h:8000/", "http://h/v1/x", "http://h/xv1", "http://v1"}) {
    const std::string kept = without_v1(url);
    EXPECT_EQ(kept, url);
  }
}

TEST(Header, IsAFieldThatTheLoadDoesNotSetItself) {
  for (const char* field : {"x-team: search", "X-Team:", "cookie: a=b; c=d", "x: a:b", "authorization: Basic eA=="}) {
    EXPECT_EQ(header_problem(field), "") << field;
  }
  for (const char* field : {"", "x-team", ": x", "x team: y", "x\u00e9: y", "host: a", "Content-Length: 3",
                            "transfer-encoding: chunked", "X-Request-Id: 1", "x: a\r\nb: c", "x: a\nb"}) {
    EXPECT_NE(header_problem(field), "") << field;
  }
}

}  // namespace
}  // namespace weir::lab::load
