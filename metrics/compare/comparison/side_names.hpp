// Names of the two sides of a comparison.
#pragma once

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

/// Sets the names and roles of the sides. A configuration may be on both sides, or beside the control in the primary's
/// place too: its shadow then has the name of the [[shadow]] behind its own.
void name_sides(Comparison& comparison, const pairs::Pairing& pairing, const samples::Names& names,
                const Options& options);

}  // namespace weir::metrics::compare::comparison
