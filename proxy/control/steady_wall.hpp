// The wall clock as comparisons need it. A step back would put what follows before what was, so that a shadow that was
// just switched on would stay cold until the clock is again where it was. After such a step, moments go on from where
// the clock stood. A step forward is followed.
//
// The control thread uses it. No clock is read.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "metrics/moment.hpp"

namespace weir::proxy::control {

class SteadyWall {
 public:
  /// Returns how many microseconds to add to a moment at which the wall clock showed `wall_us`.
  std::int64_t ahead_us(std::int64_t wall_us, metrics::Moment at) {
    const std::int64_t offset = wall_us - steady_us(at);
    if (!offset_ || *offset_ - offset <= smallest_step_us) offset_ = offset;
    return ahead_us_ = *offset_ - offset;
  }
  /// The same for a moment of now, of which only the wall clock is known.
  std::int64_t ahead_us() const { return ahead_us_; }
  /// Returns the wall clock of a moment as comparisons have it; 0 before the first reading.
  std::int64_t at_us(metrics::Moment moment) const { return offset_ ? *offset_ + steady_us(moment) : 0; }

 private:
  /// Less is what lies between two readings of clocks.
  static constexpr std::int64_t smallest_step_us = 1'000'000;

  static std::int64_t steady_us(metrics::Moment moment) {
    return std::chrono::duration_cast<std::chrono::microseconds>(moment.time_since_epoch()).count();
  }

  std::optional<std::int64_t> offset_;  ///< The wall clock's from the steady one.
  std::int64_t ahead_us_ = 0;
};

}  // namespace weir::proxy::control
