// Reads HTTP/1 messages from a socket, by the strict rules of tests/http.hpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tests/http.hpp"
#include "tests/integration/peers/socket.hpp"

namespace weir::integration {

using tests::Head;
using tests::NotHttp;
using tests::parse_head;

/// Says how a body ended.
enum class BodyEnd {
  open,   ///< The body has not ended yet.
  whole,  ///< The framing is complete, or there is no body at all.
  close,  ///< A FIN came where the close is the framing.
  fin,    ///< A FIN came before the framing said so.
  reset,  ///< An RST came, anywhere.
};

/// Reads messages from a socket one after the other. Bytes behind a message stay for the next one.
class MessageReader {
 public:
  explicit MessageReader(Socket& socket) : socket_(&socket) {}

  /// Returns the next head; absent if the peer closed before its first byte. Throws PeerGone, TimedOut, NotHttp.
  std::optional<Head> head();

  /// The framing is Content-Length, chunked, or (if allowed) the close.
  void body_by_fields(const Head& head, bool close_delimited);
  void no_body() { end_ = BodyEnd::whole; }

  /// Appends at least one more byte of the body to `body`, or ends. Returns false when the body has ended.
  bool more(std::string& body);
  BodyEnd end() const { return end_; }
  /// Takes no more than so many bytes from the socket at a time.
  void read_at_most(std::size_t bytes) { most_ = bytes; }
  /// Returns the bytes received behind what was read so far.
  const std::string& left_over() const { return buffer_; }

 private:
  bool fill();  ///< Returns false on FIN; throws PeerGone on RST.

  Socket* socket_;
  std::size_t most_ = 64 * 1024;
  std::string buffer_;
  tests::BodyReader body_;
  BodyEnd end_ = BodyEnd::whole;
};

}  // namespace weir::integration
