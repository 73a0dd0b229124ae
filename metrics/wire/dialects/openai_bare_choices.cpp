#include "metrics/wire/dialects/dialect.hpp"

#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {

using simdjson::ondemand::json_type;
using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

namespace {

bool says_nothing(value& part) {
  const auto text = string_of(part);
  return text ? text->empty() : is_null(part) || (is(part, json_type::array) && !holds_any(json_of(part)));
}

}  // namespace

bool choices_bring_nothing(std::string_view data, bool but_a_role) {
  bool nothing = true;
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key != "choices") return true;
    simdjson::ondemand::array list;
    if (part.get_array().get(list) != simdjson::SUCCESS) return false;
    for (auto one : list) {
      simdjson::ondemand::object choice;
      if (one.get_object().get(choice) != simdjson::SUCCESS) return false;
      const bool read = for_each_field(choice, [&](raw_json_string name, value& member) {
        if (name == "index") return true;
        if (name != "delta" || !is(member, json_type::object)) {
          nothing = nothing && says_nothing(member);
          return true;
        }
        return for_each_field_in(member, [&](raw_json_string inner, value& said) {
          nothing = nothing && ((but_a_role && inner == "role") || says_nothing(said));
          return true;
        });
      });
      if (!read) return false;
    }
    return true;
  });
  return whole && nothing;
}

}  // namespace weir::metrics::wire
