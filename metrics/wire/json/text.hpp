// Counts the code points of text as it comes on the wire, in raw JSON strings and in pieces, undoes its escapes, and
// checks its UTF-8.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "metrics/utf8.hpp"
#include "metrics/wire/json/escape.hpp"

namespace weir::metrics::wire {

/// Returns the code points of the inside of a JSON string, with escapes decoded (a surrogate pair is one). Absent if
/// `body` could not stand between two quotes: it has a bare quote, a control byte, a broken escape, an odd backslash at
/// its end, or broken UTF-8.
std::optional<std::uint64_t> code_points_of_string_body(std::string_view body);

/// Tells the text of the inside of a JSON string in pieces, each of whole code points. Half a surrogate pair, and a
/// backslash that begins no escape, become U+FFFD.
template <class Tell>
void undo_escapes(std::string_view body, Tell&& tell) {
  const auto tell_point = [&tell](char32_t point) {
    std::array<char, 4> bytes;
    tell(std::string_view(bytes.data(), put_code_point(point, bytes.data())));
  };
  Utf16Units units;
  while (!body.empty()) {
    const std::size_t plain = std::min(body.find('\\'), body.size());
    if (plain > 0) {
      units.end(tell_point);
      tell(body.substr(0, plain));
    }
    body.remove_prefix(plain);
    if (body.empty()) break;
    body.remove_prefix(1);
    Escape escape;
    auto step = Escape::Step::more;
    std::size_t read = 0;
    while (read < body.size() && step == Escape::Step::more) step = escape.feed(body[read++]);
    if (step == Escape::Step::ended) {
      units.add(escape.unit(), tell_point);
      body.remove_prefix(read);
      continue;
    }
    units.end(tell_point);
    tell_point(U'\uFFFD');
    constexpr std::size_t one_unit = 5;  // A u and four digits.
    body.remove_prefix(std::min(body.starts_with('u') ? one_unit : 1, body.size()));
  }
  units.end(tell_point);
}

/// Counts the code points that begin in a piece of UTF-8 text. The text may be cut anywhere: the counts of its pieces
/// add up.
std::uint64_t code_points_begun(std::string_view piece);

/// Checks UTF-8 that comes in pieces, cut anywhere. It costs about 0.1 ns a byte.
class Utf8Check {
 public:
  /// Returns false once the text so far is not the beginning of any UTF-8 text.
  bool feed(std::string_view piece);

 private:
  std::array<char, 4> cut_{};  // The start of a code point that the last piece cut.
  std::size_t cut_size_ = 0;
  bool valid_ = true;
};

}  // namespace weir::metrics::wire
