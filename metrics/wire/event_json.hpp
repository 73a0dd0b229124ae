// Reading an event's JSON in place with simdjson On-Demand: only for the dialects' own files.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "metrics/vocabulary.hpp"

namespace weir::metrics::wire {

/// Calls `field(key, value)` for every field of `object`; false if the JSON is broken.
template <class Field>
bool for_each_field(simdjson::ondemand::object object, Field&& field) {
  for (auto one : object) {
    if (one.error() != simdjson::SUCCESS) return false;
    // In place: a copy of what the iterator has just written stalls the core, and there are a dozen fields an event.
    simdjson::ondemand::field&& it = std::move(one).value_unsafe();
    if (!field(it.key(), it.value())) return false;
  }
  return true;
}

/// The same for the document's outermost object. The parser is the thread's own, so that a stream owns none.
template <class Field>
bool for_each_field_of(std::string_view data, Field&& field) {
  thread_local simdjson::ondemand::parser shared;
  // A parser grows with what it reads, and stays so: a rare giant gets one of its own.
  constexpr std::size_t usual = 64 * 1024;
  std::optional<simdjson::ondemand::parser> own;
  simdjson::ondemand::parser& parser = data.size() > usual ? own.emplace() : shared;
  simdjson::ondemand::document document;
  simdjson::ondemand::object object;
  if (parser.iterate(data.data(), data.size(), data.size() + simdjson::SIMDJSON_PADDING).get(document) ||
      document.get_object().get(object)) {
    return false;
  }
  // Behind the last brace nothing may stand.
  return for_each_field(object, field) && document.current_location().error() == simdjson::OUT_OF_BOUNDS;
}

inline bool is_null(simdjson::ondemand::value& value) {
  simdjson::ondemand::json_type type;
  return value.type().get(type) == simdjson::SUCCESS && type == simdjson::ondemand::json_type::null;
}

inline bool is(simdjson::ondemand::value& value, simdjson::ondemand::json_type wanted) {
  simdjson::ondemand::json_type type;
  return value.type().get(type) == simdjson::SUCCESS && type == wanted;
}

/// A count; absent if it is no whole number of at least 0, or beyond belief.
inline std::optional<std::uint64_t> count_of(simdjson::ondemand::value& value) {
  std::uint64_t n = 0;
  if (value.get_uint64().get(n) != simdjson::SUCCESS || n > most_tokens) return std::nullopt;
  return n;
}

/// The bytes of a string between its quotes, as they stand in the event.
inline std::string_view string_body(simdjson::ondemand::value& value) {
  std::string_view token = value.raw_json_token();
  token.remove_prefix(1);
  return token.substr(0, token.rfind('"'));
}

}  // namespace weir::metrics::wire
