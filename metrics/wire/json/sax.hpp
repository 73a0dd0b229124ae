// Tells what a reader of JSON is told by the parser (json/parser.hpp), and when a number is a count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::metrics::wire {

/// A base for readers: each hides those of the functions below that it needs.
class Sax {
 public:
  /// A reader that sets this has `raw(std::string_view)`, which brings the document as it is written, in pieces. The
  /// bytes of an object or array come after its beginning was told, the last of them right after its end was.
  static constexpr bool takes_raw = false;
  /// Half a surrogate pair, which RFC 8259 lets stand in a string, breaks the document unless a reader sets this. Such
  /// a reader is told U+FFFD instead.
  static constexpr bool takes_half_pairs = false;

  void object_begin() {}
  void object_end(std::size_t /*members*/) {}
  void array_begin() {}
  void array_end(std::size_t /*elements*/) {}
  void key_text(std::string_view) {}  ///< Brings the pieces of a key, before key().
  void key(std::string_view) {}       ///< Brings the key; "" if it is longer than JsonParser's `longest_key`.
  /// Offers text of a string as it is written, before string() brings it. A reader returns how far it has read it
  /// itself, which is not within an escape; string() brings the rest.
  const char* skim(const char* at, const char* /*end*/) { return at; }
  void string(std::string_view, bool /*last*/) {}  ///< Brings the pieces of a string, which may be empty.
  /// Brings the nearest double. NaN stands for a number that no double holds, and for one written in more than
  /// NumberText's `longest` bytes.
  void number(double, std::size_t /*bytes*/) {}
  /// Brings the text of a number before number() brings its value, unless it is at most 15 plain digits: other numbers
  /// may have one value and one length, and be two to an engine. Of a longer text it brings NumberText's `longest`.
  void number_text(std::string_view) {}
  void boolean(bool) {}
  void null() {}
};

/// Returns a JSON number as a count; absent if it is none.
inline std::optional<std::uint64_t> as_count(double number) {
  constexpr double most = 9007199254740992.0;  // 2^53; a larger double is no count.
  if (!(number >= 0 && number <= most)) return std::nullopt;
  const auto count = static_cast<std::uint64_t>(number);
  if (static_cast<double>(count) < number) return std::nullopt;
  return count;
}

}  // namespace weir::metrics::wire
