// A client that knows exactly what it got: heads verbatim, bodies with their end. It can leave at any moment, send
// several requests at once, and read as slowly as a test likes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/integration/peers/message.hpp"
#include "tests/integration/peers/socket.hpp"

namespace weir::integration {

struct Response {
  unsigned status = 0;
  std::string version;
  Head head;
  std::string body;  ///< The body without its framing.
  BodyEnd end = BodyEnd::open;
};

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, int receive_buffer = 0)
      : socket_(Socket::connect(port, receive_buffer)), reader_(socket_) {}
  /// Talks over a connection that is there.
  explicit HttpClient(Socket socket) : socket_(std::move(socket)), reader_(socket_) {}
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void send(std::string_view bytes) { socket_.send(bytes); }

  /// Reads the head, then the body to its end. An interim answer (1xx) is an answer of its own.
  Response response(std::string_view method = "POST");
  /// Reads the head alone; read_until and rest read what follows.
  Response response_head(std::string_view method = "POST");
  /// Reads on until the body holds `text`. Throws if it ends before.
  void read_until(Response& response, std::string_view text);
  /// Reads at least one more byte. Returns false when the body has ended.
  bool read_more(Response& response);
  void rest(Response& response);
  /// From now on it takes one byte from its socket at a time.
  void read_bytewise() { reader_.read_at_most(1); }

  /// Sends, and reads one answer, even one that came while the server had stopped reading.
  Response exchange(std::string_view bytes, std::string_view method = "POST");

  /// Waits until the server closes. Returns true if it did so without another byte.
  bool closed_by_server();

  /// Waits until the server closes, and drops what it still sends.
  void drain() { socket_.wait_for_close(); }
  /// Takes nothing, and returns whether the server resets the connection within that time.
  bool breaks_within(std::chrono::milliseconds at_most) const { return socket_.breaks_within(at_most); }
  /// Waits until the server's system has all that was sent: see Socket.
  void wait_until_taken() const { socket_.wait_until_taken(); }
  void finish_sending() { socket_.finish_sending(); }
  void close() { socket_.close(); }
  void reset() { socket_.reset(); }

 private:
  Socket socket_;
  MessageReader reader_;
};

/// Sends one request on a connection of its own.
Response fetch(std::uint16_t port, std::string_view bytes, std::string_view method = "POST");

}  // namespace weir::integration
