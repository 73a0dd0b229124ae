// Quantiles of what was measured: exact from values, right to 0.8 % from the bins of gap sketches.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "metrics/record/gap_sketch.hpp"

namespace weir::metrics::compare::statistics {

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

/// Returns the quantile `q` of all gaps, each taken as the middle of its bin, in seconds; NaN if there are none.
double quantile_of_gaps(const GapCounts& counts, double q);

/// Adds up the gaps of many streams, in bins.
class GapDistribution {
 public:
  void add(std::span<const record::GapSketch::Bin> bins);
  Distribution distribution() const;  ///< In seconds.

 private:
  GapCounts counts_;
};

}  // namespace weir::metrics::compare::statistics
