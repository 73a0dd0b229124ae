// How alike neighbouring minutes are, of what is told of one minute after the other.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace weir::metrics::compare::statistics {

/// A value for each minute in order of time; NaN where there is none.
using Minutes = std::vector<double>;

/// Returns how many minutes have a value.
std::size_t known_minutes(std::span<const double> minutes);

/// Returns the variance of a sum of minutes, for one minute: the greatest of L times the variance of the means of
/// batches of L minutes, for L = 5 and 30 (batch means: Law, "Simulation Modeling and Analysis"). A batch counts if
/// half of its minutes have a value. Each of the series varies around its own mean. Returns nothing with fewer than
/// sixteen batches of 30 minutes, which are eight hours.
std::optional<double> long_run_variance(std::span<const Minutes> series);

/// Returns the lag-1 autocorrelation, over the neighbours of which both are known; NaN if it is undefined.
double lag_one_autocorrelation(std::span<const double> values);

}  // namespace weir::metrics::compare::statistics
