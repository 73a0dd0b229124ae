// Student's t distribution, by Boost.Math.
#pragma once

namespace weir::metrics::compare::statistics {

/// Returns the t that is exceeded with probability (1 - confidence) / 2: 2.262 for 95 % and 9 degrees of freedom.
double t_two_sided(double confidence, double degrees);

}  // namespace weir::metrics::compare::statistics
