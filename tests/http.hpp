// Reads HTTP/1.1 messages for all tests and benches: heads verbatim, and bodies with their framing taken at its word.
// It is stricter than any real peer (an extension of a chunk, a trailer or a bare LF is an error), so that whatever
// weir sends must be canonical. It owns no socket.
#pragma once

#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::tests {

/// The peer sent bytes that are no HTTP/1 message in canonical form.
struct NotHttp : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Head {
  std::string bytes;       ///< The head as received, blank line included.
  std::string start_line;  ///< The first line, without CRLF.
  std::vector<std::pair<std::string, std::string>> fields;

  /// Returns the value of the only field of this name, compared without case; absent if there is none. Throws NotHttp
  /// if there are two.
  std::optional<std::string> field(std::string_view name) const {
    std::optional<std::string> found;
    for (const auto& [field_name, value] : fields) {
      if (field_name.size() != name.size() || ::strncasecmp(field_name.data(), name.data(), name.size()) != 0) continue;
      if (found) throw NotHttp("two fields " + field_name);
      found = value;
    }
    return found;
  }
  bool has(std::string_view name) const { return field(name).has_value(); }

  /// Returns the status of an answer.
  unsigned status() const {
    unsigned status = 0;
    const bool line = start_line.size() >= 12 && start_line.starts_with("HTTP/1.") && start_line[8] == ' ';
    if (!line || std::from_chars(start_line.data() + 9, start_line.data() + 12, status).ptr != start_line.data() + 12)
      throw NotHttp("not a status line: " + start_line);
    return status;
  }
};

/// Returns the size of the head that `bytes` begin with, blank line included; absent if it is not whole.
inline std::optional<std::size_t> head_size(std::string_view bytes) {
  const auto end = bytes.find("\r\n\r\n");
  return end == bytes.npos ? std::nullopt : std::optional(end + 4);
}

inline Head parse_head(std::string bytes) {
  Head head;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const auto end = rest.find("\r\n");
    if (end == rest.npos) throw NotHttp("a head line without CRLF");
    const auto line = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    if (line.find_first_of(std::string_view("\r\n\0", 3)) != line.npos) throw NotHttp("a control byte in a head line");
    if (line.empty()) break;
    if (head.start_line.empty()) {
      head.start_line = line;
      continue;
    }
    const auto colon = line.find(':');
    if (colon == line.npos || colon == 0) throw NotHttp("not a field: '" + std::string(line) + "'");
    auto value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    value = value.substr(0, value.find_last_not_of(' ') + 1);
    head.fields.emplace_back(line.substr(0, colon), value);
  }
  head.bytes = std::move(bytes);
  return head;
}

/// Takes the framing off a body, however it is split.
class BodyReader {
 public:
  enum class Framing { none, length, chunked, close };
  /// Other proxies write the sizes of chunks with leading zeros and capital letters.
  enum class Sizes { canonical, any };

  explicit BodyReader(Framing framing = Framing::none, std::uint64_t length = 0, Sizes sizes = Sizes::canonical)
      : framing_(framing), any_sizes_(sizes == Sizes::any), left_(length) {
    if (framing == Framing::none || (framing == Framing::length && length == 0)) state_ = State::whole;
    if (framing == Framing::chunked) state_ = State::size;
  }

  /// The framing is Content-Length, chunked, or else the close, if a message of its kind may end so.
  static BodyReader of(const Head& head, bool may_close) {
    const auto coding = head.field("transfer-encoding");
    const auto length = head.field("content-length");
    if (coding && length) throw NotHttp("both Content-Length and Transfer-Encoding");
    if (coding && *coding != "chunked") throw NotHttp("Transfer-Encoding: " + *coding);
    if (coding) return BodyReader(Framing::chunked);
    if (!length) return BodyReader(may_close ? Framing::close : Framing::none);
    std::uint64_t size = 0;
    const auto [end, error] = std::from_chars(length->data(), length->data() + length->size(), size);
    if (error != std::errc() || end != length->data() + length->size()) throw NotHttp("not a length: " + *length);
    return BodyReader(Framing::length, size);
  }

  /// Gives each piece of the body to `payload`. Returns what stands behind the body.
  template <class Payload>
  std::string_view read(std::string_view bytes, Payload&& payload) {
    while (!bytes.empty() && state_ != State::whole) {
      if (state_ == State::body) {
        const auto size = framing_ == Framing::close ? bytes.size() : std::min<std::uint64_t>(left_, bytes.size());
        payload(bytes.substr(0, size));
        bytes.remove_prefix(size);
        left_ -= framing_ == Framing::close ? 0 : size;
        if (left_ == 0 && framing_ != Framing::close)
          state_ = framing_ == Framing::chunked ? State::chunk_cr : State::whole;
      } else {
        take(bytes.front());
        bytes.remove_prefix(1);
      }
    }
    return bytes;
  }
  std::string_view read(std::string_view bytes, std::string& body) {
    return read(bytes, [&](std::string_view piece) { body += piece; });
  }

  bool whole() const { return state_ == State::whole; }
  bool until_close() const { return framing_ == Framing::close; }
  /// True if nothing of a chunk is missing, nor of the line that says its size.
  bool between_chunks() const { return state_ == State::size && digits_ == 0; }

 private:
  enum class State { body, size, size_lf, chunk_cr, chunk_lf, last_cr, last_lf, whole };

  void take(char c) {
    switch (state_) {
      case State::size:
        if (c == '\r' && digits_ > 0) return go(State::size_lf);
        return take_digit(c);
      case State::size_lf:
        digits_ = 0;
        return expect(c, '\n', left_ > 0 ? State::body : State::last_cr);
      case State::chunk_cr:
        return expect(c, '\r', State::chunk_lf);
      case State::chunk_lf:
        return expect(c, '\n', State::size);
      case State::last_cr:
        return expect(c, '\r', State::last_lf);
      case State::last_lf:
        return expect(c, '\n', State::whole);
      case State::body:
      case State::whole:
        return;
    }
  }
  void take_digit(char c) {
    const bool capital = c >= 'A' && c <= 'F';
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || capital;
    const bool odd = capital || (digits_ > 0 && left_ == 0);
    if (!hex || digits_ == 16 || (odd && !any_sizes_))
      throw NotHttp(std::string("in the size of a chunk: '") + c + "'");
    left_ = left_ * 16 + static_cast<std::uint64_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    ++digits_;
  }
  void expect(char c, char wanted, State next) {
    if (c == wanted) return go(next);
    if (state_ == State::last_cr) throw NotHttp("a trailer behind the last chunk");
    throw NotHttp(state_ == State::chunk_cr ? "a chunk is longer than it says" : "a line of a chunk without CRLF");
  }
  void go(State next) { state_ = next; }

  Framing framing_;
  bool any_sizes_;
  State state_ = State::body;
  std::uint64_t left_;  // It counts bytes of the body (length) or of the chunk.
  unsigned digits_ = 0;
};

/// A message as far as it has come.
struct Message {
  std::optional<Head> head;
  std::string body;
  bool whole = false;        ///< Its framing came to its end.
  bool until_close = false;  ///< Only the end of the connection ends it.
  std::string_view rest;     ///< It follows the message.
};

inline Message read_message(std::string_view bytes, bool may_close) {
  Message message;
  const auto size = head_size(bytes);
  if (!size) return message;
  message.head = parse_head(std::string(bytes.substr(0, *size)));
  auto reader = BodyReader::of(*message.head, may_close);
  message.rest = reader.read(bytes.substr(*size), message.body);
  message.whole = reader.whole();
  message.until_close = reader.until_close();
  return message;
}
inline Message read_answer(std::string_view bytes) { return read_message(bytes, true); }
inline Message read_request(std::string_view bytes) { return read_message(bytes, false); }

inline std::string chunk(std::string_view bytes) {
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + std::string(bytes) + "\r\n";
}
inline constexpr std::string_view last_chunk = "0\r\n\r\n";

}  // namespace weir::tests
