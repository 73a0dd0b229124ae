// The conclusion of a comparison in one line: what b is beside a, in absolute figures, and what to do.
#pragma once

#include <string>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/comparison/gate.hpp"

namespace weir::metrics::compare::comparison {

/// Returns a line such as "Do not promote fp8: it is slower: TPOT from 27.20 to 31.50 ms (+15.8 %), TTFT from 163.0 to
/// 188.0 ms (+15.3 %); answers are the same." It says first what to do and why. TPOT and TTFT are named always,
/// other figures where they decide. `gate` is that of the comparison.
std::string conclusion_of(const Comparison& comparison, const GateResult& gate);

}  // namespace weir::metrics::compare::comparison
