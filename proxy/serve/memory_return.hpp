// Gives free memory back to the system after a burst of requests. An allocator keeps what was freed: jemalloc until some
// later request has been served, glibc below its top for good.
//
// MemoryReturn is pure: told ten times a second what limits.buffer_memory counts, it says when give_memory_back() is worth
// its while.
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

/// Gives back what the allocator, jemalloc or glibc's, holds free. Any thread may call it. It holds each arena's lock for
/// a millisecond or two.
void give_memory_back() noexcept;

}  // namespace weir::proxy::serve

