// Findings of a comparison: the word of each figure, decided family by family, and the figures that get no word.
#pragma once

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/comparison/looks.hpp"
#include "metrics/compare/pairs/load.hpp"

namespace weir::metrics::compare::comparison {

/// Sets the state of a comparison that has its figures, and with State::too_few the length that would do.
void find_state(Comparison& comparison, const Judged& judged);

/// Gives each verdict its finding, its p, and the sentence that says why. Tails are a family of their own, so that they
/// make the others no less sure. `misses_are_known`: those of the objective were counted as long as the window.
void decide(Comparison& comparison, const Judged& judged, const pairs::Load& load, bool misses_are_known);

}  // namespace weir::metrics::compare::comparison
