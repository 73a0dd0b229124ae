// Faults of answers, whatever their times; misses of an objective; and calls of tools.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "config/settings.hpp"
#include "metrics/compare/pairs/pairing.hpp"

namespace weir::metrics::compare::pairs {

enum class Fault : std::uint8_t {
  failed,       ///< An error, a broken connection, a time-out, or a refusal where the other side answered.
  empty,        ///< A whole answer without a token.
  length,       ///< A whole answer that ends at its limit of tokens.
  tools,        ///< No valid call, of the pairs in which an answer calls a tool.
  slo,          ///< A miss of the objective.
  calls,        ///< An answer that calls a tool. No fault: it tells whether answers are the same, as the next does.
  other_calls,  ///< A call that is another than the primary's.
};
inline constexpr std::size_t fault_count = 7;
inline constexpr std::size_t judged_faults = 5;  ///< The first of them: `calls` and `other_calls` have no verdict.
inline constexpr std::array<std::string_view, fault_count> fault_names{"failed", "empty", "length",     "tools",
                                                                       "slo",    "calls", "other_calls"};
constexpr std::string_view name_of(Fault fault) { return fault_names[static_cast<std::size_t>(fault)]; }

/// Whether each side has a fault; nothing where the answers do not tell.
struct Had {
  bool a = false, b = false;
};
using FaultsOfPair = std::array<std::optional<Had>, fault_count>;
FaultsOfPair faults_of(const Pair& pair, bool control, const samples::Names& names,
                       const std::optional<config::Slo>& slo);

/// The same of one request, of which no other tells: tools and refusals are not known.
std::array<std::optional<bool>, fault_count> faults_of(const samples::Sample& sample, const samples::Names& names,
                                                       const std::optional<config::Slo>& slo);

}  // namespace weir::metrics::compare::pairs
