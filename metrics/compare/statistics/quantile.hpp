// Quantiles of values that are all there. Between two values the quantile is interpolated, as numpy and R do by
// default.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace weir::metrics::compare::statistics {

/// Returns the quantile `q` (0 to 1) of values, which it reorders; NaN if there are none. It takes linear time.
template <class Value>
double quantile(std::span<Value> values, double q) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double rank = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(values.begin(), at, values.end());
  const double low = static_cast<double>(*at);
  if (below + 1 == values.size()) return low;
  const double high = static_cast<double>(*std::min_element(at + 1, values.end()));
  return low + (rank - static_cast<double>(below)) * (high - low);
}

template <class Value>
double median(std::span<Value> values) {
  return quantile(values, 0.5);
}

}  // namespace weir::metrics::compare::statistics
