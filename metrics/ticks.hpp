// Converts seconds, as settings and tables give them, to durations of the monotonic clock.
#pragma once

#include <chrono>

namespace weir::metrics {

/// The part below one tick is cut off.
inline std::chrono::steady_clock::duration ticks(std::chrono::duration<double> seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(seconds);
}

}  // namespace weir::metrics
