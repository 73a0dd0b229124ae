// Reads traces of real traffic: when requests came and how long they were (TIMESTAMP,ContextTokens,GeneratedTokens).
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <variant>
#include <vector>

namespace weir::lab::load {

struct TraceEntry {
  double at = 0;  ///< It counts seconds since the first entry.
  std::uint64_t prompt_tokens = 0;
  std::uint64_t output_tokens = 0;
  bool operator==(const TraceEntry&) const = default;
};

/// Reads at most `limit` entries (0 means all). A header line is expected. An entry without output or prompt counts as
/// one of one token. On an error the result is a sentence that names the line and what is wrong with it.
std::variant<std::vector<TraceEntry>, std::string> read_trace(std::istream& in, std::size_t limit);

}  // namespace weir::lab::load
