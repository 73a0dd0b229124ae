#include "lab/experiment/knee.hpp"

#include <algorithm>

namespace weir::lab::experiment {

Knee knee_of(std::span<const Operation> operations) {
  if (operations.size() < 3) return {};
  const auto best =
      std::ranges::max_element(operations, {}, [](const Operation& one) { return one.throughput / one.latency; });
  if (best == operations.end() - 1) return {Knee::State::not_reached, std::nullopt};
  if (best == operations.begin() && best->concurrency > 1) return {Knee::State::at_or_below, std::nullopt};
  return {Knee::State::found, best->concurrency};
}

}  // namespace weir::lab::experiment
