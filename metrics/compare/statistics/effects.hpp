// From the values of two sides to the ten block values of a metric.
#pragma once

#include <vector>

#include "metrics/compare/statistics/blocks.hpp"

namespace weir::metrics::compare::statistics {

/// A metric's values on both sides. If they are paired, the two lists belong together and have the same moments.
struct SideValues {
  std::vector<Point> a, b;
  bool paired = false;
};

/// Returns ln(b/a): the median over the pairs of each block, or the logarithm of b's median over a's if they are not
/// paired.
BlockValues log_ratios(const SideValues& values, const Window& window);
/// Returns the same for each minute.
std::vector<double> log_ratios_by_minute(const SideValues& values, const Window& window);

/// Returns 1 for each value above a's own p95 in the window, else 0.
SideValues above_p95_of_a(const SideValues& values, const Window& window);

}  // namespace weir::metrics::compare::statistics
