// Fields of small JSON objects, read with simdjson's DOM: answers of services, lines of traces and results.
//
// A field that is absent or of another type is no error; the last of two of one name counts.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::metrics::wire {

using JsonObject = simdjson::dom::object;
using JsonArray = simdjson::dom::array;
using JsonValue = simdjson::dom::element;

inline std::optional<JsonValue> value_at(const JsonObject& object, std::string_view key) {
  std::optional<JsonValue> last;
  for (const auto [name, value] : object) {
    if (name == key) last = value;
  }
  return last;
}

/// Returns a field as a JsonObject, a JsonArray, a bool, a number, or a std::string_view in place.
template <class Type>
std::optional<Type> field(const JsonObject& object, std::string_view key) {
  const auto value = value_at(object, key);
  Type read;
  if (!value || value->get(read) != simdjson::SUCCESS) return std::nullopt;
  return read;
}

inline bool flag_at(const JsonObject& object, std::string_view key) { return field<bool>(object, key).value_or(false); }

inline std::string_view text_at(const JsonObject& object, std::string_view key) {
  return field<std::string_view>(object, key).value_or("");
}

inline std::optional<double> number_of(const JsonObject& object, std::string_view key) {
  return field<double>(object, key);
}

/// Returns 0 if the field is absent or negative.
inline std::uint64_t count_of(const JsonObject& object, std::string_view key) {
  const double v = number_of(object, key).value_or(0);
  return v > 0 ? static_cast<std::uint64_t>(v) : 0;
}

/// Returns the value of a text, or why it is no JSON. Values are valid until the next call in this thread.
inline simdjson::simdjson_result<JsonValue> json_in(std::string_view text) {
  thread_local simdjson::dom::parser parser;
  return parser.parse(text.data(), text.size());
}

/// Returns the object of a line in the same way, or nothing if it is none.
inline std::optional<JsonObject> object_of(std::string_view text) {
  JsonObject object;
  if (json_in(text).get(object) != simdjson::SUCCESS) return std::nullopt;
  return object;
}

/// Returns an object without fields where there is none.
inline JsonObject object_or_empty(std::string_view text) {
  const auto object = object_of(text);
  return object ? *object : *object_of("{}");
}

}  // namespace weir::metrics::wire
