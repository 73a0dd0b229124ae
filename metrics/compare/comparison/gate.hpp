// The gate: a word about a comparison, which a rollout or continuous integration can obey.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

enum class Gate : std::uint8_t {
  pass,     ///< No metric is worse, and every guardrail is better, equivalent or not worse.
  worse,    ///< At least one metric is worse.
  unknown,  ///< No metric is worse, but a guardrail is not known yet, or cannot be known.
};
inline constexpr std::array<std::string_view, 3> gate_names{"pass", "worse", "unknown"};
constexpr std::string_view name_of(Gate gate) { return gate_names[static_cast<std::size_t>(gate)]; }

/// In a split no answers are paired, so a comparison tells nothing of faults there.
enum class SplitFaults : std::uint8_t {
  unknown,            ///< So a split cannot pass.
  counted_elsewhere,  ///< As a rollout does, whose gate is about the other guardrails.
};

struct GateResult {
  Gate word = Gate::unknown;
  /// A sentence for each metric that is worse, and for each guardrail that is not known; each begins with the metric's
  /// name and a colon. Both may be filled when the word is `worse`; both are empty when it is `pass`.
  std::vector<std::string> worse, unknown;
  /// The sentence about answers that differ, which is among `unknown`. "" if they do not, or that is not known.
  std::string answers{};
  Gate but_for_answers = Gate::unknown;  ///< The word if answers did not count.
};

/// Guardrails are failed requests, empty answers, answers cut by length and tool calls, missed objectives where there
/// is an objective, TTFT, TPOT, and the mean number of output tokens. A kind of fault that no pair tells of, such as
/// tool calls where nobody calls tools, does not count. The longest gap, freezes and slower minorities stop b if
/// they are worse, but nobody waits for them; the tails do neither. The result depends on the arguments alone.
GateResult gate_of(const Comparison& comparison, SplitFaults split = SplitFaults::unknown);

}  // namespace weir::metrics::compare::comparison
