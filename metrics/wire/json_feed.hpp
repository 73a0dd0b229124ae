// Runs a Sax reader over a document that comes in pieces. Included only where a reader is defined: it brings
// boost::json's whole parser in.
#pragma once

#include <boost/json/basic_parser_impl.hpp>

#include <string_view>

#include "metrics/wire/sax.hpp"

namespace weir::metrics::wire {

template <class Reader>
class JsonFeed {
 public:
  void feed(std::string_view piece) {
    if (broken_ || piece.empty()) return;
    boost::json::error_code ec;
    const std::size_t read = parser_.write_some(true, piece.data(), piece.size(), ec);
    broken_ = ec.failed() || read < piece.size();  // Something stands behind the document.
  }
  bool whole() const { return !broken_ && parser_.done(); }
  bool broken() const { return broken_; }
  Reader& reader() { return parser_.handler(); }
  const Reader& reader() const { return parser_.handler(); }

 private:
  boost::json::basic_parser<Reader> parser_{sax_options()};
  bool broken_ = false;
};

}  // namespace weir::metrics::wire
