// Two sides that did not run at the same time, by a control that ran beside each of them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

/// Gives verdicts to a comparison whose sides are apart, if another configuration or replica (by what the sides are)
/// had the same load beside a as long as a ran, and beside b as long as b did: ln(b/a) = ln(b/c) - ln(a/c). The times
/// are independent, so the errors add as squares, and the degrees of freedom are Welch's. Of several controls the first
/// by name that tells TTFT or TPOT counts. Takes the time of two comparisons for each control that is tried.
void bridge(Comparison& comparison, std::span<const samples::Sample> samples, const samples::Names& names,
            const Options& options);

}  // namespace weir::metrics::compare::comparison
