// Intervals of tail quantiles by a block bootstrap. They carry no verdict: ten blocks are few for it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "metrics/compare/statistics/blocks.hpp"
#include "metrics/compare/statistics/effects.hpp"

namespace weir::metrics::compare::statistics {

/// b's quantile relative to a's, as a share of a's.
struct QuantileRatio {
  double estimate = 0;
  Interval interval{};
};

/// Draws ten blocks with replacement, the same ones for both sides, and takes the 95 % in the middle of what many draws
/// give. The draws have a fixed seed, so that the same values give the same interval.
class BlockBootstrap {
 public:
  /// Sorts the values, block by block.
  BlockBootstrap(const SideValues& values, const Window& window);

  /// Returns nothing if a block has no values, or with fewer than 1 / (1 - q) values on a side. Its time grows with the
  /// logarithm of the number of values.
  std::optional<QuantileRatio> ratio(double q, unsigned resamples) const;

 private:
  using Weights = std::array<std::uint64_t, block_count>;  ///< How often each block was drawn.

  /// The values of one side, block by block and all together.
  class Sorted {
   public:
    Sorted(const std::vector<Point>& points, const Window& window);
    std::size_t size() const { return all_.size(); }
    bool whole() const;
    /// Returns the quantile `q` of the drawn values (quantile.hpp).
    double quantile(double q, const Weights& weights) const;

   private:
    std::array<std::vector<double>, block_count> blocks_;
    std::vector<double> all_;
  };

  Sorted a_, b_;
};

}  // namespace weir::metrics::compare::statistics
