// Writes one flat JSON object on one line. No allocation but the line's own growth.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::metrics::record {

/// Appends `text` as a JSON string. Always valid UTF-8: what is not becomes U+FFFD, one for each longest broken part,
/// as the WHATWG decoder does.
void append_json_string(std::string& out, std::string_view text);

/// Members stand in the order they are added. An absent value is null. Keys are written as they are.
class JsonLine {
 public:
  JsonLine();
  JsonLine& text(std::string_view key, std::string_view value);
  /// "" is null.
  JsonLine& known_text(std::string_view key, std::string_view value);
  JsonLine& number(std::string_view key, std::optional<std::uint64_t> value);
  /// Writes at most `digits` digits behind the point, without trailing zeros. A negative value or NaN is null.
  JsonLine& decimal(std::string_view key, std::optional<double> value, unsigned digits);
  JsonLine& boolean(std::string_view key, bool value);
  JsonLine& null(std::string_view key);
  /// Writes `json` as it is.
  JsonLine& raw(std::string_view key, std::string_view json);
  std::string take();  ///< Returns the closed object; the line is spent.

 private:
  void name(std::string_view key);
  std::string out_;
};

}  // namespace weir::metrics::record
