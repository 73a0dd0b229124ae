// Quantiles by one definition, which every table, interval and chart uses: Hyndman and Fan's type 7, the default of
// numpy, pandas, R and spreadsheets. Of n values in order, numbered from 0, the quantile q lies at the number
// q * (n - 1), and between two values on the straight line.
//
// Values that were only counted in bins are taken as the middles of their bins, and the rest is the same.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>

#include "metrics/record/answer.hpp"

namespace weir::metrics::compare::statistics {

/// Returns the quantile `q` (0 to 1) of `count` values, of which `value_at(number)` gives one by its number in their
/// order; NaN if there are none. `value_at` is asked for one number, or for two in a row.
template <class ValueAt>
double quantile_by_number(std::uint64_t count, double q, ValueAt&& value_at) {
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  const double number = q * static_cast<double>(count - 1);
  const auto below = static_cast<std::uint64_t>(number);
  const double share = number - static_cast<double>(below);
  const auto low = static_cast<double>(value_at(below));
  if (below + 1 == count || share == 0) return low;
  return low + share * (static_cast<double>(value_at(below + 1)) - low);
}

/// Returns the quantile `q` of values that are in order.
template <class Value>
double quantile_of_sorted(std::span<const Value> sorted, double q) {
  return quantile_by_number(sorted.size(), q, [&](std::uint64_t number) { return sorted[number]; });
}

/// Returns the quantile `q` of values, which it reorders, in linear time.
template <class Value>
double quantile(std::span<Value> values, double q) {
  auto first = values.begin();  // All before it are in front of the number that was asked for last.
  return quantile_by_number(values.size(), q, [&](std::uint64_t number) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(number);
    std::nth_element(first, at, values.end());
    first = at + 1;
    return *at;
  });
}

template <class Value>
double median(std::span<Value> values) {
  return quantile(values, 0.5);
}

// Quantiles of what was measured: exact from values, right to 0.8 % from the bins of gap sketches.

/// A quantile is absent where there are too few values to know it.
struct Distribution {
  std::uint64_t count = 0;
  std::optional<double> p50, p90, p95, p99;
  bool operator==(const Distribution&) const = default;
};

/// With fewer values the p99 is not reported (docs/reference/metrics.md).
inline constexpr std::uint64_t least_for_p99 = 100;

/// Reorders the values. None may be NaN.
Distribution distribution_of(std::span<float> values);

/// The numbers of gaps by their bins (record::GapSketch).
using GapCounts = std::map<std::uint16_t, std::uint64_t>;
/// Adds the gaps of a stream.
void add(GapCounts& counts, std::span<const record::GapSketch::Bin> bins);

/// Returns the quantile `q` of all gaps, each taken as the middle of its bin, in seconds; NaN if there are none.
double quantile_of_gaps(const GapCounts& counts, double q);

/// Returns the distribution of all gaps, in seconds.
Distribution distribution_of(const GapCounts& counts);

}  // namespace weir::metrics::compare::statistics
