#include "tests/integration/peers/message.hpp"

#include <strings.h>
#include <algorithm>
#include <array>
#include <charconv>

namespace weir::integration {
namespace {

std::uint64_t number(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size())
    throw NotHttp("not a length: '" + std::string(text) + "'");
  return value;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<std::string> Head::field(std::string_view name) const {
  std::optional<std::string> found;
  for (const auto& [field_name, value] : fields) {
    if (field_name.size() != name.size() || ::strncasecmp(field_name.data(), name.data(), name.size()) != 0) continue;
    if (found) throw NotHttp("two fields " + field_name);
    found = value;
  }
  return found;
}

Head parse_head(std::string bytes) {
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
    head.fields.emplace_back(line.substr(0, colon), trimmed(line.substr(colon + 1)));
  }
  head.bytes = std::move(bytes);
  return head;
}

bool MessageReader::fill() {
  std::array<char, 64 * 1024> piece;
  const auto n = socket_->receive(piece.data(), std::min(most_, piece.size()));
  buffer_.append(piece.data(), n);
  return n > 0;
}

std::optional<Head> MessageReader::head() {
  std::size_t end = buffer_.npos;
  while ((end = buffer_.find("\r\n\r\n")) == buffer_.npos) {
    if (fill()) continue;
    if (buffer_.empty()) return std::nullopt;
    throw NotHttp("the connection ended within a head: '" + buffer_ + "'");
  }
  auto head = parse_head(buffer_.substr(0, end + 4));
  buffer_.erase(0, end + 4);
  end_ = BodyEnd::whole;
  return head;
}

void MessageReader::body_by_fields(const Head& head, bool close_delimited) {
  const auto coding = head.field("transfer-encoding");
  const auto length = head.field("content-length");
  if (coding && length) throw NotHttp("both Content-Length and Transfer-Encoding");
  in_chunk_ = false;
  if (coding) {
    if (*coding != "chunked") throw NotHttp("Transfer-Encoding: " + *coding);
    framing_ = Framing::chunked;
    end_ = BodyEnd::open;
  } else if (length) {
    framing_ = Framing::length;
    left_ = number(*length, 10);
    end_ = left_ == 0 ? BodyEnd::whole : BodyEnd::open;
  } else {
    framing_ = Framing::close;
    end_ = close_delimited ? BodyEnd::open : BodyEnd::whole;
  }
}

bool MessageReader::more(std::string& body) {
  const auto before = body.size();
  while (end_ == BodyEnd::open && body.size() == before) {
    if (framing_ == Framing::chunked && take_chunked(body)) continue;
    if (framing_ != Framing::chunked && !buffer_.empty()) {
      const auto n = framing_ == Framing::close ? buffer_.size() : std::min<std::uint64_t>(left_, buffer_.size());
      body.append(buffer_, 0, n);
      buffer_.erase(0, n);
      if (framing_ == Framing::length && (left_ -= n) == 0) end_ = BodyEnd::whole;
      continue;
    }
    try {
      if (!fill()) end_ = framing_ == Framing::close ? BodyEnd::close : BodyEnd::fin;
    } catch (const PeerGone&) {
      end_ = BodyEnd::reset;
    }
  }
  return end_ == BodyEnd::open || body.size() > before;
}

/// Takes one step: a size line, or bytes of a chunk. Returns false if it needs more bytes.
bool MessageReader::take_chunked(std::string& body) {
  if (in_chunk_) {
    if (left_ > 0) {
      if (buffer_.empty()) return false;
      const auto n = std::min<std::uint64_t>(left_, buffer_.size());
      body.append(buffer_, 0, n);
      buffer_.erase(0, n);
      left_ -= n;
      return true;
    }
    if (buffer_.size() < 2) return false;
    if (!buffer_.starts_with("\r\n")) throw NotHttp("a chunk is longer than it says");
    buffer_.erase(0, 2);
    in_chunk_ = false;
    return true;
  }
  const auto end = buffer_.find("\r\n");
  if (end == buffer_.npos) return false;
  const auto size = number(std::string_view(buffer_).substr(0, end), 16);
  if (size > 0) {
    buffer_.erase(0, end + 2);
    left_ = size;
    in_chunk_ = true;
    return true;
  }
  if (buffer_.size() < end + 4) return false;
  if (buffer_.compare(end, 4, "\r\n\r\n") != 0) throw NotHttp("a trailer behind the last chunk");
  buffer_.erase(0, end + 4);
  end_ = BodyEnd::whole;
  return true;
}

}  // namespace weir::integration
