// From a table of minutes to verdicts.
#pragma once

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

/// Sets a comparison's figures, faults, answers, changes and state by its table. The comparison has its sides, its
/// window, and what forbids verdicts. `history` is null without one; `ended` says that the samples reach the end of a
/// declared window.
void judge(Comparison& comparison, const table::Table& table, const Options& options, const History* history,
           bool ended);

/// Returns the length of the window, in which each minute that has requests is a whole one.
double length_in_minutes_s(const Comparison& comparison);

}  // namespace weir::metrics::compare::comparison
