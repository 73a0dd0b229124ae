// Faults of answers, whatever their times; misses of an objective; and calls of tools.
#pragma once

#include <algorithm>
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

/// True if the answer ends with a call. OpenAI says tool_calls, or function_call of old; Anthropic says tool_use.
inline bool calls_tools(const samples::Sample& sample, const samples::Names& names) {
  static constexpr std::array<std::string_view, 3> reasons{"tool_calls", "function_call", "tool_use"};
  return std::ranges::find(reasons, names.text(sample.finish_reason)) != reasons.end();
}

/// Whether each side calls tools, and with valid arguments; -1 is unknown, also where no answer calls any.
struct ValidTools {
  std::int8_t a = -1, b = -1;
  bool known() const { return a >= 0 && b >= 0; }
};

/// A shadow's sample tells of its primary, too.
inline ValidTools valid_tools(const Pair& pair) {
  const auto of = [](const samples::Sample& side, const samples::Sample& other) {
    return side.role == Role::shadow ? side.valid_tools : other.primary_valid_tools;
  };
  return {of(*pair.a, *pair.b), of(*pair.b, *pair.a)};
}

}  // namespace weir::metrics::compare::pairs
