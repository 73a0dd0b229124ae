// Keeps the gaps of one stream in little memory: sorted log-linear bins with counts, and their exact sum
// (docs/reference/request-log.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "metrics/moment.hpp"

namespace weir::metrics::record {

/// Each bin is 1.6 % wide: there are 64 to every doubling, counted from 1 microsecond. Bin 0 holds all shorter gaps.
/// The sketch serves one stream's gaps and quantiles over records; exported buckets never come from it.
class GapSketch {
 public:
  struct Bin {
    std::uint16_t index;
    std::uint32_t count;
    bool operator==(const Bin&) const = default;
  };

  void add(Nanoseconds gap, std::uint32_t count = 1);
  std::uint64_t count() const;
  /// The exact sum of all gaps. A bin's middle differs from the gaps in it by up to 0.8 %.
  std::uint64_t nanoseconds() const { return nanoseconds_; }
  std::span<const Bin> bins() const { return bins_; }  ///< Sorted by index.

  static std::uint16_t bin_of(Nanoseconds gap);
  static Nanoseconds middle_of(std::uint16_t bin);  ///< Returns the geometric middle of a bin.

 private:
  std::vector<Bin> bins_;
  std::uint64_t nanoseconds_ = 0;
};

}  // namespace weir::metrics::record
