// The conclusion of a comparison in one line: what b is beside a, in absolute figures, and what to do.
#pragma once

#include <string>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/comparison/gate.hpp"

namespace weir::metrics::compare::comparison {

/// Returns a line such as "fp8 is slower: TPOT 27.2 to 31.5 ms (+14.1 %), TTFT 163 to 188 ms (+15.3 %); answers are the
/// same. Do not promote." It says first what is worse, or else what the gate waits for. TPOT and TTFT are named always,
/// other figures where they decide. `gate` is that of the comparison.
std::string conclusion_of(const Comparison& comparison, const GateResult& gate);

}  // namespace weir::metrics::compare::comparison
