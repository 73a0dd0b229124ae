// A request log of weir's, or of `weir-lab load --log`: arrivals, lengths and turns of what was served once.
//
// The log holds no texts, so prompts are made up. Those of one conversation (`group`) begin alike: each turn says again
// what the turns before it said, and how long their answers were. A shadow's lines are no arrivals and are left out.
#pragma once

#include "lab/load/traces/format.hpp"

namespace weir::lab::load::traces {

/// True if a trace that begins with this line is one of these.
bool is_request_log(std::string_view first_line);
/// A log's lines stand in the order in which requests ended; they are put into that of their arrivals. Lines that tell
/// no lengths are counted in `left_out`.
Trace read_request_log(std::istream& in, std::string first_line, std::size_t limit, std::uint64_t& left_out);

}  // namespace weir::lab::load::traces
