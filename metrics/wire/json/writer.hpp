// Writes JSON value by value: lines of the request log, reports, weir's own answers and questions. Only the text's own
// growth allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::metrics::wire {

/// Appends `text` as a JSON string, always in valid UTF-8. Each longest broken part becomes one U+FFFD, as in the
/// WHATWG decoder.
void append_json_string(std::string& out, std::string_view text);

/// Values and members stand in the order in which they are added, with commas where they belong. An absent value is
/// null.
class JsonWriter {
 public:
  explicit JsonWriter(std::size_t expected_size = 0) { out_.reserve(expected_size); }

  JsonWriter& open(char bracket);   ///< '{' or '['
  JsonWriter& close(char bracket);  ///< '}' or ']'
  /// A key that stands in the source is written as it is; any other is escaped.
  template <std::size_t n>
  JsonWriter& key(const char (&literal)[n]) {
    return plain_key({literal, n - 1});
  }
  template <std::size_t n>
  JsonWriter& key(char (&buffer)[n]) = delete;
  JsonWriter& key(std::string_view name);

  JsonWriter& text(std::string_view value);
  JsonWriter& known_text(std::string_view value);  ///< Writes null for "".
  JsonWriter& texts(const std::vector<std::string>& values);
  JsonWriter& count(std::optional<std::uint64_t> value);
  /// Writes six significant digits. NaN and infinity are null.
  JsonWriter& decimal(std::optional<double> value);
  /// Writes at most `digits` digits behind the point, without trailing zeros. A negative value or NaN is null.
  JsonWriter& fixed(std::optional<double> value, unsigned digits);
  /// Writes the fewest digits that read back as the same value, with an exponent: 1.25E-1. NaN and infinity are null.
  JsonWriter& exact(std::optional<double> value);
  JsonWriter& boolean(std::optional<bool> value);
  JsonWriter& null() { return raw("null"); }
  JsonWriter& raw(std::string_view json);  ///< Writes `json` as it is.

  /// Returns what was written, and leaves nothing.
  std::string written() { return std::exchange(out_, {}); }

 private:
  JsonWriter& plain_key(std::string_view name);
  void next();

  std::string out_;
  bool comma_is_due_ = false;
};

// Writes JSON in one way, so that two texts of one value are the same bytes.

/// Returns `text` with the members of each object in the order of their names, without white space, and with no escape
/// that is not needed. Numbers stay as they are written: 1.0 is not 1. Absent if `text` is not one JSON value, or
/// nested deeper than JsonParser follows.
std::optional<std::string> canonical_json(std::string_view text);

}  // namespace weir::metrics::wire
