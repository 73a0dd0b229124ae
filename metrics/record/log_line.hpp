// The fields of a line of the request log, in their order: what the reference and the JSON schema of the log are made
// of. A test holds each line that log_line() writes against them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "config/table_reader.hpp"

namespace weir::metrics::record {

enum class JsonType : std::uint8_t { text, whole, number, flag, list };
/// Returns the type's name in a JSON schema.
constexpr std::string_view name_of(JsonType type) {
  constexpr std::string_view names[] = {"string", "integer", "number", "boolean", "array"};
  return names[static_cast<std::size_t>(type)];
}

struct LogField {
  std::string_view name;
  JsonType type;
  std::string_view unit;
  config::About about;
  std::string_view null_when{};               ///< "" if the field is never null.
  std::span<const std::string_view> words{};  ///< The words that a text can be; empty if it can be any.
  bool of_shadows = false;                    ///< Lines of shadows alone have it.
};

std::span<const LogField> log_fields();

}  // namespace weir::metrics::record
