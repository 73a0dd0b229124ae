// KoboldAI's stream as Aphrodite serves it (WIRE.md, 1.8): text and no more. It counts nothing and has no end marker.
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/json/on_demand.hpp"

namespace weir::metrics::wire {

using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

bool read_kobold_event(std::string_view data, EventFacts& facts) {
  ChoiceFacts choice;
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "token") return read_text(part, facts.output_chars, choice.token);
    if (key == "finish_reason") {
      facts.finish_reason = string_of(part).value_or("");
    } else if (key == "error") {
      facts.error |= says_error(part);
    }
    return true;
  });
  if (!whole) return false;
  if (facts.error) return true;
  choice.output = choice.token;
  choice.finished = !facts.finish_reason.empty();
  facts.carries_choice = true;
  facts.choices.push_back(choice);
  return true;
}

}  // namespace weir::metrics::wire
