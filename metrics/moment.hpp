// Time in the lower rooms is always an argument: config/, metrics/ and balancer/ read no clock.
#pragma once

#include <chrono>

namespace weir::metrics {

/// A moment on the monotonic clock. `proxy/` reads it from the clock; tests and the planner make it up.
using Moment = std::chrono::steady_clock::time_point;
using Nanoseconds = std::chrono::nanoseconds;

/// Converts a duration to seconds, as the request log and the exposition write them.
inline double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

// Converts seconds, as settings and tables give them, to durations of the monotonic clock.

/// The part below one tick is cut off.
inline std::chrono::steady_clock::duration ticks(std::chrono::duration<double> seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(seconds);
}

}  // namespace weir::metrics
