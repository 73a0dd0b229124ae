// Runs a Sax reader over a document that comes in pieces. Included only where a reader is defined: it brings
// boost::json's whole parser in.
//
// The parser gets bites smaller than the buffer in which it undoes escapes. Where a piece ends within a code point or
// an escape, Boost 1.81 puts the whole code point into that buffer and then as many bytes as the buffer holds: an
// assertion for any client to fail, or three bytes written behind it (boostorg/json, issue 876). Bites end between code
// points, since what follows a cut one is read byte by byte.
#pragma once

#include <boost/json/basic_parser_impl.hpp>

#include <string_view>

#include "metrics/wire/sax.hpp"

namespace weir::metrics::wire {

template <class Reader>
class JsonFeed {
 public:
  void feed(std::string_view piece) {
    while (!broken_ && !piece.empty()) {
      const std::string_view bite = first_bite(piece);
      boost::json::error_code ec;
      const std::size_t read = parser_.write_some(true, bite.data(), bite.size(), ec);
      broken_ = ec.failed() || read < bite.size();  // Something stands behind the document.
      piece.remove_prefix(bite.size());
    }
  }
  bool whole() const { return !broken_ && parser_.done(); }
  bool broken() const { return broken_; }
  Reader& reader() { return parser_.handler(); }
  const Reader& reader() const { return parser_.handler(); }

 private:
  static constexpr std::size_t longest_bite = BOOST_JSON_STACK_BUFFER_SIZE - 8;

  static std::string_view first_bite(std::string_view piece) {
    if (piece.size() <= longest_bite) return piece;
    std::size_t end = longest_bite;
    const auto within_code_point = [&] { return (static_cast<unsigned char>(piece[end]) & 0xC0) == 0x80; };
    while (end > longest_bite - 3 && within_code_point()) --end;
    return piece.substr(0, end);
  }

  boost::json::basic_parser<Reader> parser_{sax_options()};
  bool broken_ = false;
};

}  // namespace weir::metrics::wire
