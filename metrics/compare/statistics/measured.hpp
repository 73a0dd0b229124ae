// A figure with the interval that it lies in, where that is known. Student's t is Boost.Math's.
#pragma once

#include <optional>
#include <span>

#include "metrics/compare/statistics/window.hpp"

namespace weir::metrics::compare::statistics {

/// Returns Student's t that is exceeded with probability (1 - confidence) / 2: 2.262 for 95 % and 9 degrees of freedom.
double t_two_sided(double confidence, double degrees);

struct Measured {
  double value = 0;
  std::optional<Interval> interval;  ///< At 95 %, and absent where there is too little to tell.
};

/// Returns the mean of the values and its t interval; nothing for no value. The interval takes the values as
/// independent, so with neighbours in time it is too narrow.
std::optional<Measured> measured(std::span<const double> values);

/// The least-squares line through points.
struct Line {
  Measured slope, intercept;
};

/// Needs at least three points, not all at the same x.
std::optional<Line> line_through(std::span<const double> x, std::span<const double> y);

}  // namespace weir::metrics::compare::statistics
