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

/// `more` is added to the sums of two sides of one size; sides of other sizes have as much together, each by its size.
/// Else a side with fewer values would have the greater share where neither has a one.
Ratio ratio_of(const SideValues& values, const Window& window, double more) {
  constexpr auto n = static_cast<double>(block_count);
  const Totals a(values.a, window), b(values.b, window);
  const auto log_of = [&](const Total& of_a, const Total& of_b) {
    const double each = 2 * more / (of_a.count + of_b.count);
    return std::log(of_b.mean_with(each * of_b.count) / of_a.mean_with(each * of_a.count));
  };
  Ratio ratio{.a = a.whole.mean(), .b = b.whole.mean(), .log = log_of(a.whole, b.whole)};
  const double difference = ratio.b - ratio.a;
  BlockValues differences{};
  for (std::size_t i = 0; i < block_count; ++i) {
    const bool known = a.blocks[i].count > 0 && b.blocks[i].count > 0;
    const Total a_without = a.whole.without(a.blocks[i]), b_without = b.whole.without(b.blocks[i]);
    const auto alone = [&](double whole, double without) { return known ? n * whole - (n - 1) * without : unknown; };
    ratio.blocks[i] = alone(ratio.log, log_of(a_without, b_without));
    differences[i] = alone(difference, b_without.mean() - a_without.mean());
  }
  // Blocks spread by nine times as much as the figures without them, so this error is the jackknife's.
  const auto with_error = [](double whole, const BlockValues& blocks) {
    const auto spread = estimate_of(blocks);
    return spread ? std::optional(Estimate{whole, spread->standard_error, spread->degrees}) : std::nullopt;
  };
  ratio.estimate = with_error(ratio.log, ratio.blocks);
  ratio.difference = with_error(difference, differences);
  return ratio;
}

}  // namespace

Ratio share_ratio(const SideValues& values, const Window& window) { return ratio_of(values, window, 0.5); }

Ratio mean_ratio(const SideValues& values, const Window& window) { return ratio_of(values, window, 0); }

}  // namespace weir::metrics::compare::statistics
