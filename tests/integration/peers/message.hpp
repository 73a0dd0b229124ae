// Reads HTTP/1 messages as bytes: it keeps heads verbatim and takes the framing of bodies at its word. It is stricter
// than any real peer (a chunk extension, a trailer or a bare LF is an error), so that whatever weir sends must be
// canonical.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/integration/peers/socket.hpp"

namespace weir::integration {

/// The peer sent bytes that are no HTTP/1 message in canonical form.
struct NotHttp : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Head {
  std::string bytes;       ///< It is the head as received, blank line included.
  std::string start_line;  ///< It is the first line, without CRLF.
  std::vector<std::pair<std::string, std::string>> fields;

  /// Returns the value of the only field of this name, compared without case; absent if there is none. Throws NotHttp
  /// if there are two.
  std::optional<std::string> field(std::string_view name) const;
  bool has(std::string_view name) const { return field(name).has_value(); }
};

Head parse_head(std::string bytes);

/// Says how a body ended.
enum class BodyEnd {
  open,   ///< It has not ended yet.
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

  void body_by_fields(const Head& head, bool close_delimited);  ///< The framing is Content-Length, chunked, or (if
                                                                ///< allowed) the close.
  void no_body() { end_ = BodyEnd::whole; }

  /// Appends at least one more byte of the body to `body`, or ends. Returns false when the body has ended.
  bool more(std::string& body);
  BodyEnd end() const { return end_; }
  /// Takes no more than so many bytes from the socket at a time.
  void read_at_most(std::size_t bytes) { most_ = bytes; }
  /// Returns the bytes received behind what was read so far.
  const std::string& left_over() const { return buffer_; }

 private:
  enum class Framing { length, chunked, close };
  bool fill();  ///< Returns false on FIN; throws PeerGone on RST.
  bool take_chunked(std::string& body);

  Socket* socket_;
  std::size_t most_ = 64 * 1024;
  std::string buffer_;
  Framing framing_ = Framing::length;
  std::uint64_t left_ = 0;  ///< It counts bytes of the body (length) or of the chunk.
  bool in_chunk_ = false;
  BodyEnd end_ = BodyEnd::whole;
};

}  // namespace weir::integration
