// Reads fields of the JSON objects that the lab gets. A field that is absent or of another type is no error.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::lab {

inline const boost::json::object* object_at(const boost::json::object& object, std::string_view key) {
  const boost::json::value* v = object.if_contains(key);
  return v ? v->if_object() : nullptr;
}

inline const boost::json::array* array_at(const boost::json::object& object, std::string_view key) {
  const boost::json::value* v = object.if_contains(key);
  return v ? v->if_array() : nullptr;
}

inline bool flag_at(const boost::json::object& object, std::string_view key) {
  const boost::json::value* v = object.if_contains(key);
  return v && v->is_bool() && v->get_bool();
}

/// Returns a text in place.
inline std::string_view text_at(const boost::json::object& object, std::string_view key) {
  const boost::json::value* v = object.if_contains(key);
  return v && v->is_string() ? std::string_view(v->get_string()) : std::string_view();
}

inline std::string text_of(const boost::json::object& object, std::string_view key) {
  return std::string(text_at(object, key));
}

inline std::optional<double> number_of(const boost::json::object& object, std::string_view key) {
  const boost::json::value* v = object.if_contains(key);
  if (!v || !v->is_number()) return std::nullopt;
  return v->to_number<double>();
}

/// Returns 0 if the field is absent or negative.
inline std::uint64_t count_of(const boost::json::object& object, std::string_view key) {
  const double v = number_of(object, key).value_or(0);
  return v > 0 ? static_cast<std::uint64_t>(v) : 0;
}

/// Returns the object of a line, or nothing if it is none.
inline std::optional<boost::json::object> object_of(std::string_view text) {
  boost::system::error_code ec;
  boost::json::value document = boost::json::parse(text, ec);
  if (ec || !document.is_object()) return std::nullopt;
  return std::move(document.get_object());
}

}  // namespace weir::lab
