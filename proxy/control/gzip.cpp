#include "proxy/control/gzip.hpp"

#include <zlib.h>

#include <boost/beast/core/string.hpp>
#include <new>
#include <optional>

namespace weir::proxy::control {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Takes the text before the next `mark` off the front of `text`.
std::string_view take_until(std::string_view& text, char mark) {
  const auto end = text.find(mark);
  const auto part = text.substr(0, end);
  text = end == text.npos ? std::string_view() : text.substr(end + 1);
  return trimmed(part);
}

/// True for "q=0": a weight of 0 is written with zeros alone.
bool forbids(std::string_view parameter) {
  if (parameter.size() < 3 || (parameter[0] != 'q' && parameter[0] != 'Q') || parameter[1] != '=') return false;
  return parameter.substr(2).find_first_not_of("0.") == parameter.npos;
}

}  // namespace

bool accepts_gzip(std::string_view accept_encoding) {
  std::optional<bool> named, any;
  while (!accept_encoding.empty()) {
    auto element = take_until(accept_encoding, ',');
    const auto coding = take_until(element, ';');
    bool allowed = true;
    while (!element.empty()) allowed &= !forbids(take_until(element, ';'));
    if (boost::beast::iequals(coding, "gzip") || boost::beast::iequals(coding, "x-gzip")) named = allowed;
    if (coding == "*") any = allowed;
  }
  return named ? *named : any.value_or(false);
}

std::string gzip(std::string_view text) {
  constexpr int fastest_that_pays = 4;  // Level 6 takes twice the time for a tenth less.
  constexpr int window_and_gzip_frame = 15 + 16;
  constexpr int memory = 8;
  z_stream stream{};
  if (::deflateInit2(&stream, fastest_that_pays, Z_DEFLATED, window_and_gzip_frame, memory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string out(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int done = ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  if (done != Z_STREAM_END) throw std::bad_alloc();
  return out;
}

}  // namespace weir::proxy::control
