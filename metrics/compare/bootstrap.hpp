// Intervals of tail quantiles by a block bootstrap. They are exploratory: ten blocks are few for it.
#pragma once

#include "metrics/compare/blocks.hpp"
#include "metrics/compare/effects.hpp"

namespace weir::metrics::compare {

/// b's quantile relative to a's, as a share of a's.
struct QuantileRatio {
  double estimate = 0;
  Interval interval{};
};

/// Draws ten blocks with replacement, `resamples` times, the same ones for both sides, and takes the 95 % in the middle
/// of what they give. The draw has a fixed seed, so that the same values give the same interval. Returns nothing if a
/// block has no values, or with fewer than 1 / (1 - q) values on a side. Its time grows with the logarithm of the
/// number of values, beside sorting them once.
std::optional<QuantileRatio> bootstrap(const SideValues& values, const Window& window, double q, unsigned resamples);

}  // namespace weir::metrics::compare
