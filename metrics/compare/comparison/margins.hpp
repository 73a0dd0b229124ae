// The margins that the metrics of a comparison are judged by.
#pragma once

#include <optional>

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

/// Returns the margin of equivalence, a share of a: as set for metrics of this kind, and no less than the noise floor.
double margin_of(statistics::Metric metric, const Options& options);

/// Returns the margin for `not_worse`, a share of a, where that can be said.
std::optional<double> worse_margin_of(statistics::Metric metric, const Options& options);

}  // namespace weir::metrics::compare::comparison
