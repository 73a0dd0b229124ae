// The conclusion of a comparison in one line: what b is beside a, in absolute figures, and what to do.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

enum class Gate : std::uint8_t {
  pass,     ///< Nothing is worse, and every guardrail is better, equivalent or not worse.
  worse,    ///< At least one figure or fault is worse.
  unknown,  ///< Nothing is worse, but a guardrail is not known yet, or cannot be known.
};
inline constexpr std::array<std::string_view, 3> gate_names{"pass", "worse", "unknown"};
constexpr std::string_view name_of(Gate gate) { return gate_names[static_cast<std::size_t>(gate)]; }

struct GateResult {
  Gate word = Gate::unknown;
  /// A sentence for each figure that is worse, and for each guardrail that is not known; each begins with a name and a
  /// colon. Both may be filled when the word is `worse`; both are empty when it is `pass`.
  std::vector<std::string> worse, unknown;
  /// The sentence about answers that differ, which is among `unknown`. "" if they do not, or that is not known.
  std::string answers{};
  Gate but_for_answers = Gate::unknown;  ///< The word if answers did not count.
};

/// All figures and faults are guardrails but these: E2E where half of the requests or more were streamed, TTFT and TPOT
/// where fewer than one answer in a hundred has them on either side, and a kind of fault that no request tells of. The
/// length of answers has to be known within its margin; if it is beyond, the answers differ. A figure that became worse
/// within the window is a guardrail that is not known, or worse if it is by a fifth above a's since then. One
/// configuration beside itself never passes. The result depends on the comparison alone.
GateResult gate_of(const Comparison& comparison);

/// Returns a line such as "Do not promote fp8: it is slower: TPOT from 27.20 to 31.50 ms (+15.8 %), TTFT from 163.0 to
/// 188.0 ms (+15.3 %); answers are the same." It says first what to do and why. TPOT and TTFT are named always,
/// other figures where they decide. `gate` is that of the comparison.
std::string conclusion_of(const Comparison& comparison, const GateResult& gate);

}  // namespace weir::metrics::compare::comparison
