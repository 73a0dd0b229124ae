// The times of the requests of a log, by the hour, and which of them are no time of that log: a clock that was not set
// yet writes 1970, a damaged line anything. One such line would stretch a window over decades.
//
// A log may be joined from runs that lie weeks apart, so that distance alone says nothing. Lines are strays if they are
// both few and far away: at most ten, or a thousandth of all, on that side, and beyond ten times what the bulk spans.
// The bulk's span is twice that of its middle half, and at least an hour.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>

namespace weir::proxy::compare {

/// A stretch of time in microseconds since 1970, its ends included.
struct Stretch {
  std::int64_t first_us = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_us = std::numeric_limits<std::int64_t>::min();
  std::uint64_t requests = 0;

  bool holds(std::int64_t us) const { return us >= first_us && us <= last_us; }
};

/// Returns the hour since 1970.
std::int64_t hour_of(std::int64_t us);

/// The memory is that of the different hours.
class ReadTimes {
 public:
  void add(std::int64_t us);
  /// Returns the time whose requests are no strays, as whole hours.
  Stretch taken() const;
  /// Returns when the first and the last request within any of these whole hours arrived, and how many did.
  Stretch within(std::span<const Stretch> taken) const;

 private:
  std::map<std::int64_t, Stretch> hours_;  ///< By the hour since 1970.
};

}  // namespace weir::proxy::compare
