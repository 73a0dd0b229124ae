#include "lab/load/connection.hpp"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

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
  const auto connection = std::make_shared<Connection>(io, server.endpoint(), later);
  Outgoing outgoing;
  outgoing.bytes = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
  connection->run(outgoing, [&](const std::shared_ptr<Connection>&, Result result) { ended = std::move(result); });
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
  EXPECT_EQ(ended->ended, ended->stream.first_token) << "the last read brought both";
}

}  // namespace
}  // namespace weir::lab::load
