// Reads a string of text that an event brings, where a dialect need not look at the rest of the event first.
#pragma once

#include "metrics/wire/json/on_demand.hpp"
#include "metrics/wire/stream/event_facts.hpp"

namespace weir::metrics::wire {

/// Counts the text of a value that is a string, adds it to the event's content, and sets `any` if there is some.
/// Returns false if the value is broken.
inline bool read_content(simdjson::ondemand::value& value, EventFacts& facts, ContentPart::What what, bool& any) {
  std::string_view text;
  if (!read_text(value, facts.output_chars, any, text)) return false;
  facts.add_content(what, text);
  return true;
}

}  // namespace weir::metrics::wire
