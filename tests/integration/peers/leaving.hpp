// How long weir keeps a replica at work for a client that has left: a GPU computes for nobody meanwhile.
#pragma once

#include <chrono>
#include <string_view>
#include <vector>

#include "tests/integration/peers/event.hpp"

namespace weir::integration {

/// The moments when weir closed connections to a replica. Any thread uses it.
class CloseTimes {
 public:
  void saw(Clock::time_point at);
  /// Waits until so many were closed, and returns when the last of them was. Throws TimedOut.
  Clock::time_point wait_for(std::size_t n) const;

 private:
  Progress closes_;
  mutable std::mutex mutex_;
  std::vector<Clock::time_point> at_;
};

/// A median of so many departures is what counts.
inline constexpr std::size_t departures = 3;

/// Prints the median, and fails the test where it is too long: 500 ms, ten times the goal, or a second with another
/// weir than that of the same build, because it has a sanitizer.
void expect_prompt_close(std::string_view departure, std::vector<Clock::duration> took);

}  // namespace weir::integration
