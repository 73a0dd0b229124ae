// llama.cpp's own /completion (WIRE.md, 1.7): each event counts what has come so far; the last has stop true and the
// timings.
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/engine/objects.hpp"

namespace weir::metrics::wire {

using simdjson::ondemand::json_type;
using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

bool read_llamacpp_event(std::string_view data, EventFacts& facts) {
  ChoiceFacts choice;
  Timings timings;
  std::optional<std::uint64_t> ids;
  std::string_view stop_type;
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "content") return read_text(part, facts.output_chars, choice.token);
    if (key == "tokens") return count_elements(part, ids);
    if (key == "timings") {
      simdjson::ondemand::object object;
      return !is(part, json_type::object) ||
             (part.get_object().get(object) == simdjson::SUCCESS && read_timings(object, timings));
    }
    if (key == "index") {
      choice.index = index_of(part);
    } else if (key == "stop") {
      choice.finished = is_true(part);
    } else if (key == "tokens_predicted") {
      facts.completion_tokens = count_of(part);
    } else if (key == "tokens_evaluated") {
      facts.prompt_tokens = count_of(part);
    } else if (key == "stop_type") {
      stop_type = string_of(part).value_or("");
    } else if (key == "prompt_progress") {
      facts.prefill_progress |= !is_null(part);
    } else if (key == "error") {
      facts.error |= says_error(part);
    }
    return true;
  });
  if (!whole) return false;
  if (facts.error) return true;
  choice.token |= ids.value_or(0) > 0;
  choice.output = true;
  if (!facts.completion_tokens) facts.completion_tokens = timings.predicted;
  if (!facts.prompt_tokens) facts.prompt_tokens = timings.prompt();
  facts.cached_tokens = timings.prompt_cached;
  if (timings.figures != EngineFigures{}) facts.engine = timings.figures;
  if (choice.finished) facts.finish_reason = stop_type;
  facts.marker = choice.finished;
  facts.carries_choice = true;
  facts.choices.push_back(choice);
  return true;
}

}  // namespace weir::metrics::wire
