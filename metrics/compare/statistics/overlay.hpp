// The values of both sides in the same bins, so that a chart can lay the two distributions over each other.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::statistics {

struct Overlay {
  struct Values {
    std::vector<std::uint64_t> counts;   ///< The count of each bin.
    std::uint64_t below = 0, above = 0;  ///< Values outside all bins. Values that are not positive lie below.
    double median = std::numeric_limits<double>::quiet_NaN();

    std::uint64_t count() const;
  };
  Figure figure = Figure::ttft;
  std::vector<double> edges;  ///< Bin i is from edges[i] up to edges[i + 1], which is outside.
  Values a, b;
};

/// Cuts the middle 99 % of both sides' values together into `bins` equal steps of the logarithm, because times spread
/// over orders of magnitude. Without a positive value there are no edges.
Overlay overlay_of(Figure figure, std::vector<double> a, std::vector<double> b, unsigned bins);

}  // namespace weir::metrics::compare::statistics
