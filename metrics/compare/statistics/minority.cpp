#include "metrics/compare/statistics/minority.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "metrics/compare/statistics/quantile.hpp"

namespace weir::metrics::compare::statistics {

Ratio minority(const SideValues& values, const Window& window, double factor) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  const double least = std::log(factor), most = std::log(10.0);
  std::array<std::vector<double>, block_count> ratios;
  for (std::size_t i = 0; i < values.a.size(); ++i) {
    const std::int64_t at = values.a[i].at_us;
    const double ratio = std::log(values.b[i].value / values.a[i].value);
    if (window.holds(at) && std::isfinite(ratio)) ratios[window.block_of(at)].push_back(ratio);
  }
  Ratio result{.a = 0, .b = 0, .log = unknown};
  double pairs = 0;
  for (std::size_t block = 0; block < block_count; ++block) {
    const auto count = static_cast<double>(ratios[block].size());
    const double middle = median(std::span(ratios[block]));
    double sum = 0;
    for (const double ratio : ratios[block]) {
      const double beside = std::clamp(ratio - middle, -most, most);
      if (std::abs(beside) <= least) continue;
      sum += beside - std::copysign(least, beside);
      ++(beside > 0 ? result.b : result.a);
    }
    result.blocks[block] = count > 0 ? sum / count : unknown;
    pairs += count;
  }
  result.a = pairs > 0 ? result.a / pairs : unknown;
  result.b = pairs > 0 ? result.b / pairs : unknown;
  result.log = mean_of(result.blocks);
  result.estimate = estimate_of(result.blocks);
  // Blocks without a minority do not vary, yet the next pair may be one of it, on either side.
  if (result.estimate)
    result.estimate->standard_error =
        std::max(result.estimate->standard_error, std::numbers::sqrt2 * (most - least) / pairs);
  return result;
}

}  // namespace weir::metrics::compare::statistics
