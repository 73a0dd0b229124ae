// TGI's own streams, /generate_stream (WIRE.md, 1.5): one event a token, special ones too; the end is an event whose
// generated_text is not null.
#include "metrics/wire/dialect.hpp"
#include "metrics/wire/event_json.hpp"
#include "metrics/wire/text.hpp"

namespace weir::metrics::wire {

namespace {

using simdjson::ondemand::json_type;
using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

bool read_token(value& token, EventFacts& facts, ChoiceFacts& choice) {
  simdjson::ondemand::object object;
  if (token.get_object().get(object) != simdjson::SUCCESS) return false;
  bool special = false;
  std::optional<std::uint64_t> points = 0;
  const bool whole = for_each_field(object, [&](raw_json_string key, value& part) {
    if (key == "text" && is(part, json_type::string)) {
      points = code_points_of_string_body(string_body(part));
      return points.has_value();
    }
    if (key == "special" && is(part, json_type::boolean)) return part.get_bool().get(special) == simdjson::SUCCESS;
    return true;
  });
  choice.token = choice.output = true;
  choice.tokens = 1;
  if (!special) facts.output_chars = points.value_or(0);
  return whole;
}

bool read_details(value& details, EventFacts& facts) {
  simdjson::ondemand::object object;
  if (details.get_object().get(object) != simdjson::SUCCESS) return false;
  return for_each_field(object, [&](raw_json_string key, value& part) {
    if (key == "finish_reason" && is(part, json_type::string)) {
      facts.finish_reason = string_body(part);
    } else if (key == "generated_tokens") {
      facts.completion_tokens = count_of(part);
    } else if (key == "input_length") {
      facts.prompt_tokens = count_of(part);
    }
    return true;
  });
}

}  // namespace

void read_tgi_event(std::string_view data, EventFacts& facts) {
  ChoiceFacts choice;
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "token" && is(part, json_type::object)) return read_token(part, facts, choice);
    if (key == "details" && is(part, json_type::object)) return read_details(part, facts);
    if (key == "generated_text") {
      choice.finished |= !is_null(part);
    } else if (key == "error") {
      facts.error |= !is_null(part);
    }
    return true;
  });
  if (!whole) {
    facts.clear();
    facts.broken = true;
    return;
  }
  if (facts.error) return;
  facts.one_token_an_event = true;
  facts.carries_choice = true;
  facts.marker = choice.finished;
  facts.choices.push_back(choice);
}

}  // namespace weir::metrics::wire
