// Writes nested JSON, member by member.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::metrics::compare::report {

/// Commas are put where they belong. Decimals have six significant digits; NaN and what is absent are null.
class JsonWriter {
 public:
  JsonWriter& open(char bracket);   ///< '{' or '['
  JsonWriter& close(char bracket);  ///< '}' or ']'
  JsonWriter& key(std::string_view name);
  JsonWriter& text(std::string_view value);
  JsonWriter& count(std::uint64_t value);
  JsonWriter& decimal(double value);
  JsonWriter& decimal(const std::optional<double>& value);
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  const std::string& written() const { return out_; }

 private:
  void next();
  std::string out_;
};

}  // namespace weir::metrics::compare::report
