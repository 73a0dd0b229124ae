// Writes traces for other tools.
#pragma once

#include <ostream>
#include <span>

#include "lab/load/trace.hpp"

namespace weir::lab::load::traces {

/// Writes Mooncake's lines (`timestamp` in milliseconds, `input_length`, `output_length`, `hash_ids`), which AIPerf,
/// vLLM's bench and others read. Prompts that begin alike have equal ids for each 512 tokens that they share; what
/// fills no 512 tokens has an id of its own unless the whole of it is shared. Ids count from 0. Costs time linear in
/// the tokens of all prompts.
void write_mooncake(std::ostream& out, std::span<const TraceEntry> entries);

}  // namespace weir::lab::load::traces
