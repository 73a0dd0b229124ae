// Runs a Sax reader over a document that comes in pieces. Only a file that defines a reader includes this: it brings
// boost::json's whole parser in.
//
// The parser gets pieces smaller than the buffer in which it decodes escapes. Where a piece ends within an escape,
// Boost 1.81 puts the whole code point into that buffer and then as many bytes as the buffer holds. Any client could so
// fail an assertion, or have bytes written behind the buffer (boostorg/json, issue 876).
//
// UTF-8 is checked here, because the parser looks at each code point by itself, which cost more than all the rest.
#pragma once

#include <boost/json/basic_parser_impl.hpp>

#include <algorithm>
#include <string_view>

#include "metrics/wire/json/sax.hpp"
#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {

template <class Reader>
class JsonFeed {
 public:
  void feed(std::string_view piece) {
    for (; !broken_ && !piece.empty(); piece.remove_prefix(std::min(piece.size(), longest_part))) {
      const std::string_view part = piece.substr(0, longest_part);
      boost::json::error_code ec;
      broken_ =
          !utf8_.feed(part) || parser_.write_some(true, part.data(), part.size(), ec) < part.size() || ec.failed();
    }
  }
  bool whole() const { return !broken_ && parser_.done(); }
  bool broken() const { return broken_; }
  Reader& reader() { return parser_.handler(); }
  const Reader& reader() const { return parser_.handler(); }

 private:
  static constexpr std::size_t longest_part = BOOST_JSON_STACK_BUFFER_SIZE - 8;

  boost::json::basic_parser<Reader> parser_{sax_options()};
  Utf8Check utf8_;
  bool broken_ = false;
};

}  // namespace weir::metrics::wire
