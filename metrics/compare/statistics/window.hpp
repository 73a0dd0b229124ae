// A stretch of time, and an interval of a figure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir::metrics::compare::statistics {

inline constexpr std::int64_t minute_us = 60'000'000;

/// Wall clock, in microseconds since 1970. `to_us` is outside.
struct Window {
  std::int64_t from_us = 0, to_us = 0;

  bool operator==(const Window&) const = default;
  bool holds(std::int64_t at_us) const { return at_us >= from_us && at_us < to_us; }
  double seconds() const { return to_us > from_us ? static_cast<double>(to_us - from_us) * 1e-6 : 0.0; }
  /// True of a window such as that of a single pair, which has no rates.
  bool is_moment() const { return seconds() < 1; }
};

struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval&) const = default;
};

}  // namespace weir::metrics::compare::statistics
