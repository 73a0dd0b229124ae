// What a reader of JSON is told (json/parser.hpp), and how it takes a number for a count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::metrics::wire {

/// A base for readers. Each hides the functions below that it needs.
class Sax {
 public:
  void object_begin() {}
  void object_end(std::size_t /*members*/) {}
  void array_begin() {}
  void array_end(std::size_t /*elements*/) {}
  void key_text(std::string_view) {}               ///< Pieces of a key, before key().
  void key(std::string_view) {}                    ///< "" for a key longer than JsonParser's `longest_key`.
  void string(std::string_view, bool /*last*/) {}  ///< Pieces of a string. They may be empty.
  /// The nearest double; NaN for what no double holds and for a number of more than JsonParser's `longest_number`
  /// bytes.
  void number(double, std::size_t /*bytes*/) {}
  void boolean(bool) {}
  void null() {}
};

/// A JSON number as a count; absent if it is none.
inline std::optional<std::uint64_t> as_count(double number) {
  constexpr double most = 9007199254740992.0;  // 2^53: beyond it a double is no count.
  if (!(number >= 0 && number <= most)) return std::nullopt;
  const auto count = static_cast<std::uint64_t>(number);
  if (static_cast<double>(count) < number) return std::nullopt;
  return count;
}

}  // namespace weir::metrics::wire
