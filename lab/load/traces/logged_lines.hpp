// The lines of a request log, for those who send its requests again or simulate them.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "lab/load/traces/formats.hpp"
#include "lab/load/traces/logged_prompts.hpp"
#include "metrics/compare/samples/log_reading.hpp"

namespace weir::lab::load::traces {

struct LoggedLine {
  metrics::compare::samples::Sample sample;
  metrics::compare::samples::ForReplay replay;

  double at() const { return 1e-6 * static_cast<double>(sample.received_us); }  ///< Unix seconds.
};

struct LoggedLines {
  std::vector<LoggedLine> lines{};  ///< Those of requests, in their order; a shadow's lines are left out.
  metrics::compare::samples::Names names{};
  std::uint64_t damaged = 0;      ///< Other lines. The last line of the log does not count if it has no end.
  std::size_t first_damaged = 0;  ///< The number of the first such line, from 1 on.
  std::string damaged_text{};     ///< Its beginning.

  std::string name(metrics::compare::samples::Names::Name of) const { return std::string(names.text(of)); }
};

/// Reads to the end; the first line has been taken already. A last line without a newline is being written.
LoggedLines read_logged_lines(std::istream& in, std::string first_line);

/// Returns what a line tells of its prompt; nothing if the request was refused, or tells no lengths that a request can
/// have, which `facts` count.
std::optional<LoggedPrompt> prompt_of(const LoggedLine& line, const LoggedLines& log, LogFacts& facts);

/// Makes entries of prompts in the order of their arrivals.
std::vector<TraceEntry> entries_of(const std::vector<LoggedPrompt>& log, LogFacts& facts);

}  // namespace weir::lab::load::traces
