// From a table of minutes to verdicts, and to notes on them.
#pragma once

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

/// Sets a comparison's figures, faults, answers, changes and state by its table. The comparison has its sides, its
/// window, and what forbids verdicts. `history` is null without one; `ended` says that the samples reach the end of a
/// declared window.
void judge(Comparison& comparison, const table::Table& table, const Options& options, const History* history,
           bool ended);

/// Returns the notes in a fixed order. `pairing` is what of the window is held; `samples` are all that are known,
/// outside the window as well.
std::vector<Note> notes_of(const Comparison& comparison, const table::Table& table, const pairs::Pairing& pairing,
                           std::span<const samples::Sample> samples);

/// Returns the length of the window, in which each minute that has requests is a whole one.
double length_in_minutes_s(const Comparison& comparison);

}  // namespace weir::metrics::compare::comparison
