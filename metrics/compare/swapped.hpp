// Two windows in which the configurations changed GPUs tell the configuration's effect from the GPU's.
#pragma once

#include <vector>

#include "metrics/compare/blocks.hpp"
#include "metrics/compare/comparison.hpp"
#include "metrics/compare/verdicts.hpp"

namespace weir::metrics::compare {

struct Swapped {
  Estimate configuration;  ///< b's configuration relative to a's.
  Estimate gpu;            ///< The GPU that b had in the first window, relative to the other.
};

/// Each estimate is of b relative to a, on the effect's own scale. The windows are independent, so the errors add as
/// squares, and the degrees of freedom are Welch's.
Swapped separate(const Estimate& first, const Estimate& second);

struct SwappedVerdict {
  Metric metric = Metric::ttft;
  double configuration = 0, gpu = 0;  ///< As shares.
  Interval configuration_interval{}, gpu_interval{};
  double margin = 0;
  Decision decision;      ///< About the configuration.
  bool withheld = false;  ///< One of the two windows gives no verdict on this metric.
};

/// Returns a verdict for each metric that has an interval in both windows. There is none unless both are final.
std::vector<SwappedVerdict> separate(const Comparison& first, const Comparison& second);

}  // namespace weir::metrics::compare
