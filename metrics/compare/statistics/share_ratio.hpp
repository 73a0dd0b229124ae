// How one side's share of requests, or its mean, relates to the other's: the ratio over the whole window. A block with
// few cases says little by itself, so blocks are not averaged: each is left out once, and how much that moves the ratio
// gives its error (the delete-one-block jackknife; Efron and Tibshirani, "An Introduction to the Bootstrap", 1993,
// chapter 11).
#pragma once

#include <optional>

#include "metrics/compare/statistics/blocks.hpp"
#include "metrics/compare/statistics/effects.hpp"

namespace weir::metrics::compare::statistics {

struct Ratio {
  double a = 0, b = 0;  ///< The share, or the mean, of each side in the window; NaN without values.
  double log = 0;       ///< ln(b/a); NaN where a side has no values.
  /// The logarithm with its standard error and 9 degrees of freedom; nothing unless every block has values on both
  /// sides.
  std::optional<Estimate> estimate{};
  std::optional<Estimate> difference{};  ///< Of b - a in the same way; where `estimate` is.
  /// The logarithm that each block alone would give: ten times that of the window less nine times that of the window
  /// without the block. NaN where the block has no values.
  BlockValues blocks{};
};

/// The values are 0 or 1. The ratio is that of the shares of ones, so that it is finite with a one more on both sides
/// together: half a one each where they have one size, else shared by their sizes. No standard error of the logarithm
/// is less than what a one more on either side would move it by, and none of the difference less than what n requests
/// without a one leave open, because a window without ones does not say that none can come. That of the difference
/// counts the ones that one side has more as well.
Ratio share_ratio(const SideValues& values, const Window& window);

/// The ratio of the means of positive values.
Ratio mean_ratio(const SideValues& values, const Window& window);

}  // namespace weir::metrics::compare::statistics
