// The beginnings that prompts of a request log have in common.
//
// A log holds no texts. Where it has keys of the prompts' beginnings (`prefixes`), a prompt shares with earlier ones
// what lies before its last key that an earlier one has, too. Where it has none, a turn of a conversation (`group`)
// shares what the turn before it said, and prompts of different conversations share nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/load/trace.hpp"
#include "metrics/wire/request/prefix_chain.hpp"

namespace weir::lab::load::traces {

/// A request as the log tells it.
struct LoggedPrompt {
  double at = 0;                                           ///< Unix seconds.
  double ended = std::numeric_limits<double>::infinity();  ///< The same; infinite where it is not known.
  std::uint64_t prompt_tokens = 1, cached_tokens = 0, output_tokens = 1;
  std::uint64_t turn = 1;
  std::optional<std::uint64_t> group{};
  std::string replica{};
  std::vector<metrics::wire::PrefixMark> marks{};  ///< In the order of their positions; empty if there are none.
};

/// Gives each entry, which has the log's lengths, its parts, its answer, its conversation and its parent. Prompts come
/// in the order of their arrivals.
///
/// Whether prompts repeat the answer of the turn before is told by `cached_tokens`: a replica that had that turn finds
/// its answer in most of the log's turns, or only its prompt, as where a template leaves out what was thought.
///
/// Counts cached tokens in `facts`.
void give_parts(std::span<const LoggedPrompt> log, std::span<TraceEntry> entries, LogFacts& facts);

}  // namespace weir::lab::load::traces
