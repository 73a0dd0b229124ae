// Whether a figure changed at a moment within a window: a leak, a restart, a neighbour on the same GPU.
//
// The statistic is a CUSUM that is normalised by itself (Shao and Zhang, "Testing for change points in time series",
// Journal of the American Statistical Association 105, 2010): at each moment the squared difference of the means before
// and after, over the squared CUSUMs of both parts. No variance has to be estimated, so minutes may be alike. The limit
// is not that of their table, which holds for windows much longer than a drift, but one that holds for drifts longer
// than the window as well (tests/bench/results/verdicts.txt).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace weir::metrics::compare::statistics {

struct Change {
  std::size_t at = 0;            ///< The first value after the change.
  double before = 0, after = 0;  ///< The means.
  double statistic = 0;
};

/// Fewer known values tell nothing.
inline constexpr std::size_t least_for_a_change = 20;
/// Two figures that are asked together, and do not change, exceed it in 5 of 100 windows at most.
inline constexpr double change_limit = 250;

/// Returns the moment before and after which the means of values in order of time differ most, if the statistic exceeds
/// `change_limit` and the means differ by more than `least`. NaN is no value. At least five values, and a tenth of all,
/// lie on each side. More than 240 values are averaged in groups of equal number, so the time is bounded.
std::optional<Change> change_in(std::span<const double> values, double least);

// How alike neighbouring minutes are, of what is told of one minute after the other.

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
