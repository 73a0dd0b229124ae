// Writes one flat JSON object on one line. Only the line's own growth allocates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::metrics::record {

/// Appends `text` as a JSON string, always in valid UTF-8. Each longest broken part becomes one U+FFFD, as in the
/// WHATWG decoder.
void append_json_string(std::string& out, std::string_view text);

/// Members stand in the order in which they are added. An absent value is null. Keys are written as they are.
class JsonLine {
 public:
  JsonLine();
  JsonLine& text(std::string_view key, std::string_view value);
  /// Writes null for "".
  JsonLine& known_text(std::string_view key, std::string_view value);
  JsonLine& number(std::string_view key, std::optional<std::uint64_t> value);
  /// Writes at most `digits` digits behind the point, without trailing zeros. A negative value or NaN is null.
  JsonLine& decimal(std::string_view key, std::optional<double> value, unsigned digits);
  JsonLine& boolean(std::string_view key, std::optional<bool> value);
  JsonLine& null(std::string_view key);
  /// Writes `json` as it is.
  JsonLine& raw(std::string_view key, std::string_view json);
  std::string take();  ///< Returns the closed object. The line cannot be used afterwards.

 private:
  void name(std::string_view key);
  std::string out_;
};

}  // namespace weir::metrics::record
