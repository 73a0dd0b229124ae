// What the readers of traces have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lab/load/trace.hpp"

namespace weir::lab::load::traces {

/// Entries, or a sentence that says what is wrong.
using Trace = std::variant<std::vector<TraceEntry>, std::string>;

/// What a reader makes of one line: an entry; nothing, if it has none; or a sentence that goes on behind "line N: ".
using Entry = std::variant<std::monostate, TraceEntry, std::string>;

/// Reads line by line, the first of which has been taken already, until there are `limit` entries (0 means all). Blank
/// lines are skipped. With `in_order`, an entry before the one above it is an error.
Trace read_lines(std::istream& in, std::string first, std::size_t limit, bool in_order,
                 const std::function<Entry(std::string_view)>& read);

/// A prompt or an answer of more tokens is a mistake in the file.
inline constexpr double most_tokens = 1e7;

/// Takes the line break's carriage return away.
void trim(std::string& line);

}  // namespace weir::lab::load::traces
