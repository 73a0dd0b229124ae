// How exactly a simulated log determines a quantile.
#pragma once

#include <span>

namespace weir::lab::forecast {

/// NaN where there are too few values to say.
struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval&) const = default;
};

inline constexpr double interval_confidence = 0.9;

/// Returns where the quantile `q` of many such logs together lies, with `interval_confidence`. `values` are positive and
/// in the order of time, in which neighbours may depend on each other. The estimate, the quantile of all values, lies
/// within.
///
/// The delete-a-group jackknife: each tenth of the values is left out in turn, and what that changes of the logarithm
/// gives its standard error, with 9 degrees of freedom (J. Shao and C. F. J. Wu, "A General Theory for Jackknife
/// Variance Estimation", Annals of Statistics 17, 1989, for quantiles).
Interval interval_of(std::span<const double> values, double q);

}  // namespace weir::lab::forecast
