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

/// With fewer values the p99 is not reported (docs/metrics.md).
inline constexpr std::uint64_t least_for_p99 = 100;

/// Reorders the values. None may be NaN.
Distribution distribution_of(std::span<float> values);

/// Adds up the gaps of many streams, in bins.
class GapDistribution {
 public:
  void add(std::span<const record::GapSketch::Bin> bins);
  /// Each quantile is the middle of the bin that holds the order statistic of rank ceil(q * count). In seconds.
  Distribution distribution() const;

 private:
  std::map<std::uint16_t, std::uint64_t> counts_;
};

}  // namespace weir::metrics::compare::statistics
