// Mooncake's traces: a JSON object a line with `timestamp` (milliseconds), `input_length`, `output_length` and
// `hash_ids`, one for each 512 tokens of the prompt. The same id is the same text behind the same text, so that prompts
// share prefixes as those of the trace did.
#pragma once

#include "lab/load/traces/format.hpp"

namespace weir::lab::load::traces {

/// True if a trace that begins with this line is one of these.
bool is_mooncake(std::string_view first_line);
Trace read_mooncake(std::istream& in, std::string first_line, std::size_t limit);

}  // namespace weir::lab::load::traces
