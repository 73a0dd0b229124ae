// Two windows in which the configurations changed GPUs tell the configuration's effect from the GPU's.
#pragma once

#include <vector>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/statistics/blocks.hpp"
#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::comparison {

struct Swapped {
  statistics::Estimate configuration;  ///< b's configuration relative to a's.
  statistics::Estimate gpu;            ///< The GPU that b had in the first window, relative to the other.
};

/// Each estimate is of ln(b/a). The windows are independent, so the errors add as
/// squares, and the degrees of freedom are Welch's.
Swapped separate(const statistics::Estimate& first, const statistics::Estimate& second);

struct SwappedVerdict {
  statistics::Metric metric = statistics::Metric::ttft;
  double configuration = 0, gpu = 0;  ///< Shares.
  statistics::Interval configuration_interval{}, gpu_interval{};
  double margin = 0;
  statistics::Decision decision;  ///< About the configuration.
  bool withheld = false;          ///< A window gives no verdict on this metric.
};

/// Returns the state of both windows together.
State state_of(const Comparison& first, const Comparison& second);

/// Returns a verdict for each metric whose blocks have an interval in both windows. There is none if a declared window
/// has not ended.
std::vector<SwappedVerdict> separate(const Comparison& first, const Comparison& second);

}  // namespace weir::metrics::compare::comparison
