#include "metrics/compare/statistics/share_ratio.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace weir::metrics::compare::statistics {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// The sum and the number of a side's values.
struct Total {
  double sum = 0, count = 0;

  Total without(const Total& part) const { return {sum - part.sum, count - part.count}; }
  double mean() const { return count > 0 ? sum / count : unknown; }
  double mean_with(double more) const { return count > 0 ? (sum + more) / count : unknown; }
};

struct Totals {
  std::array<Total, block_count> blocks{};
  Total whole{};

  Totals(const std::vector<Point>& points, const Window& window) {
    for (const Point& point : points) {
      if (!window.holds(point.at_us) || !std::isfinite(point.value)) continue;
      for (Total* total : {&blocks[window.block_of(point.at_us)], &whole}) {
        total->sum += point.value;
        ++total->count;
      }
    }
  }
};

/// `more` is added to each sum.
Ratio ratio_of(const SideValues& values, const Window& window, double more) {
  constexpr auto n = static_cast<double>(block_count);
  const Totals a(values.a, window), b(values.b, window);
  const auto log_of = [&](const Total& of_a, const Total& of_b) {
    return std::log(of_b.mean_with(more) / of_a.mean_with(more));
  };
  Ratio ratio{.a = a.whole.mean(), .b = b.whole.mean(), .log = log_of(a.whole, b.whole)};
  for (std::size_t i = 0; i < block_count; ++i) {
    const double without = log_of(a.whole.without(a.blocks[i]), b.whole.without(b.blocks[i]));
    const bool known = a.blocks[i].count > 0 && b.blocks[i].count > 0;
    ratio.blocks[i] = known ? n * ratio.log - (n - 1) * without : unknown;
  }
  // Blocks spread by nine times as much as the ratios without them, so this error is the jackknife's.
  if (const auto spread = estimate_of(ratio.blocks))
    ratio.estimate = Estimate{ratio.log, spread->standard_error, spread->degrees};
  return ratio;
}

}  // namespace

Ratio share_ratio(const SideValues& values, const Window& window) { return ratio_of(values, window, 0.5); }

Ratio mean_ratio(const SideValues& values, const Window& window) { return ratio_of(values, window, 0); }

}  // namespace weir::metrics::compare::statistics
