// A wait for what only looking tells, such as a line in a file that another program writes.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "tests/integration/peers/event.hpp"

namespace weir::integration {

inline constexpr std::chrono::milliseconds between_looks{5};

/// Looks until `done()` is true. Throws TimedOut with `what` after `patience`.
template <class Done>
void look_until(const std::string& what, const Done& done) {
  const auto deadline = Clock::now() + patience;
  while (!done()) {
    if (Clock::now() > deadline) throw TimedOut(what);
    std::this_thread::sleep_for(between_looks);
  }
}

}  // namespace weir::integration
