// Says when free memory is to be given back to the system: after a burst of requests. glibc keeps what was freed below
// its top, so a burst of bodies would stay in the process for good.
//
// Pure: told ten times a second what limits.buffer_memory counts, it says when a call of malloc_trim is worth its
// while. The call holds each arena's lock for a millisecond or two.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "metrics/moment.hpp"

namespace weir::proxy::serve {

class MemoryReturn {
 public:
  /// Less than this is left to the allocator.
  static constexpr std::size_t least = 8 * 1024 * 1024;
  /// The memory in use has not come back to its peak for so long.
  static constexpr std::chrono::seconds quiet{1};

  /// True once `least` of what was used at the peak is free, and has been for `quiet`. The peak counts anew then.
  bool is_due(std::size_t used, metrics::Moment now) {
    if (used + least > peak_) {
      peak_ = std::max(peak_, used);
      fallen_ = metrics::Moment::max();
      return false;
    }
    fallen_ = std::min(fallen_, now);
    if (now - fallen_ < quiet) return false;
    peak_ = used;
    fallen_ = metrics::Moment::max();
    return true;
  }

 private:
  std::size_t peak_ = 0;
  metrics::Moment fallen_ = metrics::Moment::max();  ///< When so much became free.
};

}  // namespace weir::proxy::serve
