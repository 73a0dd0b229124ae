#include "metrics/compare/comparison/moments.hpp"

#include <algorithm>
#include <cmath>

namespace weir::metrics::compare::comparison {

std::int64_t microseconds(double seconds) {
  constexpr double most = 4e18;
  return static_cast<std::int64_t>(std::clamp(seconds * 1e6, -most, most));
}

std::int64_t first_moment(std::span<const samples::Sample> samples) {
  return samples.empty() ? 0 : std::ranges::min(samples, {}, &samples::Sample::dispatched_us).dispatched_us;
}

std::int64_t last_moment(std::span<const samples::Sample> samples) {
  std::int64_t last = 0;
  for (const samples::Sample& sample : samples) {
    const double lasted = std::isfinite(sample.lasted) ? static_cast<double>(sample.lasted) : 0.0;
    last = std::max(last, sample.received_us + microseconds(lasted));
  }
  return last;
}

}  // namespace weir::metrics::compare::comparison
