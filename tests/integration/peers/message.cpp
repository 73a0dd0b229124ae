#include "tests/integration/peers/message.hpp"

#include <algorithm>
#include <array>

namespace weir::integration {

bool MessageReader::fill() {
  std::array<char, 64 * 1024> piece;
  const auto n = socket_->receive(piece.data(), std::min(most_, piece.size()));
  buffer_.append(piece.data(), n);
  return n > 0;
}

std::optional<Head> MessageReader::head() {
  std::optional<std::size_t> size;
  while (!(size = tests::head_size(buffer_))) {
    if (fill()) continue;
    if (buffer_.empty()) return std::nullopt;
    throw NotHttp("the connection ended within a head: '" + buffer_ + "'");
  }
  auto head = parse_head(buffer_.substr(0, *size));
  buffer_.erase(0, *size);
  end_ = BodyEnd::whole;
  return head;
}

void MessageReader::body_by_fields(const Head& head, bool close_delimited) {
  body_ = tests::BodyReader::of(head, close_delimited);
  end_ = body_.whole() ? BodyEnd::whole : BodyEnd::open;
}

bool MessageReader::more(std::string& body) {
  const auto before = body.size();
  while (end_ == BodyEnd::open && body.size() == before) {
    if (!buffer_.empty()) {
      const auto rest = body_.read(buffer_, body);
      buffer_.erase(0, buffer_.size() - rest.size());
      if (body_.whole()) end_ = BodyEnd::whole;
      continue;
    }
    try {
      if (!fill()) end_ = body_.until_close() ? BodyEnd::close : BodyEnd::fin;
    } catch (const PeerGone&) {
      end_ = BodyEnd::reset;
    }
  }
  return end_ == BodyEnd::open || body.size() > before;
}

}  // namespace weir::integration
