// Time on floors 0 to 2: always an argument, never read here.
#pragma once

#include <chrono>

namespace weir::metrics {

/// A moment on the monotonic clock. `proxy/` supplies it; tests and the planner invent it.
using Moment = std::chrono::steady_clock::time_point;
using Nanoseconds = std::chrono::nanoseconds;

/// Seconds as the request log and the exposition write them.
inline double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace weir::metrics
