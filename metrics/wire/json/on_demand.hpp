// Reads an event's JSON in place with simdjson On-Demand.
#pragma once

#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "metrics/vocabulary.hpp"
#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {

/// Calls `field(key, value)` for every field of `object`; false if the JSON is broken.
template <class Field>
bool for_each_field(simdjson::ondemand::object object, Field&& field) {
  for (auto one : object) {
    if (one.error() != simdjson::SUCCESS) return false;
    // The field is used in place: a copy of what the iterator has just written stalls the core, and an event has a
    // dozen fields.
    simdjson::ondemand::field&& it = std::move(one).value_unsafe();
    if (!field(it.key(), it.value())) return false;
  }
  return true;
}

/// Reads a whole document: `read` gets it, and returns false if it is broken. Each thread has one parser, so that a
/// stream owns none. 64 bytes behind `data` must be readable.
template <class Read>
bool read_document(std::string_view data, Read&& read) {
  thread_local simdjson::ondemand::parser shared;
  // A parser grows with what it reads, and stays so. A rare giant therefore gets one of its own.
  constexpr std::size_t usual = 64 * 1024;
  std::optional<simdjson::ondemand::parser> own;
  simdjson::ondemand::parser& parser = data.size() > usual ? own.emplace() : shared;
  simdjson::ondemand::document document;
  if (parser.iterate(data.data(), data.size(), data.size() + simdjson::SIMDJSON_PADDING).get(document)) return false;
  // Nothing may stand behind the last brace.
  return read(document) && document.current_location().error() == simdjson::OUT_OF_BOUNDS;
}

/// Reads a whole document that is an object.
template <class Field>
bool for_each_field_of(std::string_view data, Field&& field) {
  return read_document(data, [&](simdjson::ondemand::document& document) {
    simdjson::ondemand::object object;
    return document.get_object().get(object) == simdjson::SUCCESS && for_each_field(object, field);
  });
}

inline bool is_null(simdjson::ondemand::value& value) {
  simdjson::ondemand::json_type type;
  return value.type().get(type) == simdjson::SUCCESS && type == simdjson::ondemand::json_type::null;
}

inline bool is(simdjson::ondemand::value& value, simdjson::ondemand::json_type wanted) {
  simdjson::ondemand::json_type type;
  return value.type().get(type) == simdjson::SUCCESS && type == wanted;
}

/// Returns the value as a count; absent if it is not a whole number of at least 0, or if it is beyond belief.
inline std::optional<std::uint64_t> count_of(simdjson::ondemand::value& value) {
  std::uint64_t n = 0;
  if (value.get_uint64().get(n) != simdjson::SUCCESS || n > most_tokens) return std::nullopt;
  return n;
}

/// Returns the bytes of a value that is neither an object nor an array.
inline std::string_view token_of(simdjson::ondemand::value& value) {
  const std::string_view token = value.raw_json_token();
  return token.substr(0, token.find_last_not_of(" \t\r\n") + 1);  // The view reaches to the next token.
}

/// Returns the bytes of a string between its quotes, as they stand in the event.
inline std::string_view string_body(simdjson::ondemand::value& value) {
  std::string_view token = value.raw_json_token();
  token.remove_prefix(1);
  return token.substr(0, token.rfind('"'));
}

/// Returns the inside of a value that is a string; absent for any other value.
inline std::optional<std::string_view> string_of(simdjson::ondemand::value& value) {
  if (!is(value, simdjson::ondemand::json_type::string)) return std::nullopt;
  return string_body(value);
}

/// Adds a string's code points to `chars` and sets `any` and `inside` if there are some; skips other values. Returns
/// false if the value is broken.
inline bool read_text(simdjson::ondemand::value& value, std::uint64_t& chars, bool& any, std::string_view& inside) {
  const auto body = string_of(value);
  if (!body || body->empty()) return true;
  const auto points = code_points_of_string_body(*body);
  if (!points) return false;
  chars += *points;
  any = true;
  inside = *body;
  return true;
}

inline bool is_true(simdjson::ondemand::value& value) {
  bool flag = false;
  return is(value, simdjson::ondemand::json_type::boolean) && value.get_bool().get(flag) == simdjson::SUCCESS && flag;
}

/// True if the value of an `error` member reports one: it is neither null nor false nor an empty text.
inline bool says_error(simdjson::ondemand::value& value) {
  using simdjson::ondemand::json_type;
  if (is(value, json_type::boolean)) return is_true(value);
  const auto text = string_of(value);
  return text ? !text->empty() : !is_null(value);
}

/// Returns the JSON of a value that is an object or an array; "" for any other value. The value cannot be read
/// afterwards.
inline std::string_view json_of(simdjson::ondemand::value& value) {
  std::string_view json;
  simdjson::ondemand::object object;
  simdjson::ondemand::array array;
  if (is(value, simdjson::ondemand::json_type::object)) {
    if (value.get_object().get(object) || object.raw_json().get(json)) return {};
  } else if (is(value, simdjson::ondemand::json_type::array)) {
    if (value.get_array().get(array) || array.raw_json().get(json)) return {};
  }
  return json.substr(0, json.find_last_of("]}") + 1);  // The view reaches to the next token.
}

/// True if json_of() gave an object, or an array that is not empty.
inline bool holds_any(std::string_view json) {
  return json.starts_with('{') || (json.starts_with('[') && json.find_first_not_of(" \t\r\n", 1) != json.size() - 1);
}

/// Counts the elements of a value that is an array. Returns false if it is broken.
inline bool count_elements(simdjson::ondemand::value& value, std::optional<std::uint64_t>& count) {
  simdjson::ondemand::array list;
  std::size_t elements = 0;
  if (!is(value, simdjson::ondemand::json_type::array)) return true;
  if (value.get_array().get(list) != simdjson::SUCCESS || list.count_elements().get(elements) != simdjson::SUCCESS)
    return false;
  count = elements;
  return true;
}

/// Returns a choice's index; 0 if it has none.
inline std::uint32_t index_of(simdjson::ondemand::value& value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count_of(value).value_or(0), UINT32_MAX));
}

/// Visits the fields of a value that is an object; skips any other value. Returns false if it is broken.
template <class Field>
bool for_each_field_in(simdjson::ondemand::value& value, Field&& field) {
  simdjson::ondemand::object object;
  if (!is(value, simdjson::ondemand::json_type::object)) return true;
  return value.get_object().get(object) == simdjson::SUCCESS && for_each_field(object, field);
}

}  // namespace weir::metrics::wire
