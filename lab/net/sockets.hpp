// A connection whose reads have the moment at which the kernel received their bytes.
//
// A busy program reads late, and a stamp of the read would have that delay in it. The kernel's stamp (SO_TIMESTAMPNS)
// has not. It is that of the last packet of which the read has bytes. It is on the wall clock, so both clocks are read
// with it (20 ns each), and a step of the wall clock is followed at once. Where no stamp comes, the moment is that of
// the read. One thread uses it.
#pragma once

#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace weir::lab::net {

using Moment = std::chrono::steady_clock::time_point;

/// Returns the monotonic moment of a wall-clock stamp, given both clocks now. A stamp from the future or older than 10
/// s is not believed; then it is `now`.
Moment arrival_of(std::chrono::nanoseconds stamp, std::chrono::nanoseconds wall_now, Moment now);

/// Asks the kernel to stamp what this socket receives. What an acceptor accepts has it from the acceptor.
void stamp_arrivals(int socket);

/// An AsyncReadStream and AsyncWriteStream, as Beast and Asio call them; a TLS stream may lie above it.
class StampedSocket {
 public:
  using Tcp = boost::asio::ip::tcp::socket;
  using executor_type = Tcp::executor_type;
  using lowest_layer_type = Tcp::lowest_layer_type;

  explicit StampedSocket(boost::asio::io_context& io) : socket_(io) {}
  explicit StampedSocket(Tcp socket) : socket_(std::move(socket)) {}

  executor_type get_executor() { return socket_.get_executor(); }
  /// Returns the socket itself, for all but reading.
  Tcp& tcp() { return socket_; }
  lowest_layer_type& lowest_layer() { return socket_.lowest_layer(); }
  /// Returns when the kernel had received what the last read brought.
  Moment arrived() const { return arrived_; }

  /// Reads as Asio's socket does, into the first buffer that has room. Without room it waits for nothing: a TLS stream
  /// asks so to be called later.
  template <class Buffers, class Handler>
  auto async_read_some(const Buffers& buffers, Handler&& handler) {
    const auto read = [this, room = first_of(buffers), waited = false](auto& self,
                                                                       boost::system::error_code ec = {}) mutable {
      if (waited && (ec || room.size() == 0)) return self.complete(ec, 0);
      if (waited) {
        const std::size_t n = receive(room, ec);
        if (ec != boost::asio::error::would_block) return self.complete(ec, n);
      }
      waited = true;
      if (room.size() == 0) return boost::asio::post(socket_.get_executor(), std::move(self));
      socket_.async_wait(Tcp::wait_read, std::move(self));
    };
    return boost::asio::async_compose<Handler, void(boost::system::error_code, std::size_t)>(read, handler, socket_);
  }

  template <class Buffers, class Handler>
  auto async_write_some(const Buffers& buffers, Handler&& handler) {
    return socket_.async_write_some(buffers, std::forward<Handler>(handler));
  }

 private:
  template <class Buffers>
  static boost::asio::mutable_buffer first_of(const Buffers& buffers) {
    for (auto it = boost::asio::buffer_sequence_begin(buffers); it != boost::asio::buffer_sequence_end(buffers); ++it) {
      const boost::asio::mutable_buffer one = *it;
      if (one.size() > 0) return one;
    }
    return {};
  }

  /// Reads what is there without waiting. At the end of the connection `ec` is eof.
  std::size_t receive(boost::asio::mutable_buffer room, boost::system::error_code& ec);

  Tcp socket_;
  Moment arrived_{};
};

// TLS of the tools' own clients: whose certificates they trust, and which host they expect.

/// Returns a context that demands a certificate of an authority in the PEM file `ca`, or, if that is "", of one in
/// OpenSSL's default store (SSL_CERT_FILE and SSL_CERT_DIR change that). Throws std::invalid_argument with a sentence
/// if the file cannot be used.
std::shared_ptr<boost::asio::ssl::context> client_context(const std::string& ca);

/// Lets a connection that is to begin name this host, a name or an address, and demand its certificate.
void expect_host(SSL* connection, const std::string& host);

/// Returns why a handshake failed, such as "TLS: certificate verify failed: self-signed certificate".
std::string handshake_problem(const SSL* connection, const boost::system::error_code& error);

/// Returns the address that takes a connection, where each has 250 ms before the next one is tried as well; the first
/// one if none does within 5 s, so that requests say why. `found` is not empty. The call blocks.
boost::asio::ip::tcp::endpoint first_that_connects(const boost::asio::ip::tcp::resolver::results_type& found);

}  // namespace weir::lab::net
