#include "tests/integration/peers/leaving.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

namespace weir::integration {

void CloseTimes::saw(Clock::time_point at) {
  {
    const std::lock_guard lock(mutex_);
    at_.push_back(at);
  }
  closes_.add(1);
}

Clock::time_point CloseTimes::wait_for(std::size_t n) const {
  closes_.wait_for(n, "weir to close the replica's connection");
  const std::lock_guard lock(mutex_);
  return at_.at(n - 1);
}

void expect_prompt_close(std::string_view departure, std::vector<Clock::duration> took) {
  const std::chrono::milliseconds at_most{std::getenv("WEIR_PROGRAM") != nullptr ? 1000 : 500};
  std::ranges::sort(took);
  const auto median = std::chrono::duration<double, std::milli>(took.at(took.size() / 2));
  EXPECT_LT(median, at_most);
  std::cout << departure << ": the replica's connection was closed after " << median.count() << " ms, in the median of "
            << took.size() << '\n';
}

}  // namespace weir::integration
