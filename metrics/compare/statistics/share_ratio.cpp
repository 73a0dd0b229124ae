#include "metrics/compare/statistics/share_ratio.hpp"

#include <algorithm>
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

/// Returns the least standard error of the logarithm of shares: blocks without a one do not vary, yet the next request
/// may be one on either side.
double least_error(const Total& a, const Total& b) {
  const auto growth = [](const Total& side) { return std::log1p(1 / side.sum); };
  return std::hypot(growth(a), growth(b));
}

/// Returns the ones by which the sides differ: of pairs those that a side has alone.
std::array<Ones, 2> ones_of(const SideValues& values, const Window& window, const Total& a, const Total& b) {
  double both = 0;
  for (std::size_t i = 0; values.paired && i < values.a.size(); ++i)
    both += window.holds(values.a[i].at_us) && values.a[i].value > 0 && values.b[i].value > 0;
  return {Ones{a.sum - both, a.count}, Ones{b.sum - both, b.count}};
}

/// `more` is added to the sums of two sides of one size; sides of other sizes have as much together, each by its size.
/// Else a side with fewer values would have the greater share where neither has a one.
Ratio ratio_of(const SideValues& values, const Window& window, double more) {
  constexpr auto n = static_cast<double>(block_count);
  const Totals a(values.a, window), b(values.b, window);
  const auto with_more = [&](const Total& side, const Total& other) {
    return Total{side.sum + 2 * more * side.count / (side.count + other.count), side.count};
  };
  const auto log_of = [&](const Total& of_a, const Total& of_b) {
    return std::log(with_more(of_b, of_a).mean() / with_more(of_a, of_b).mean());
  };
  Ratio ratio{.a = a.whole.mean(), .b = b.whole.mean(), .log = log_of(a.whole, b.whole)};
  BlockValues differences{};
  for (std::size_t i = 0; i < block_count; ++i) {
    const bool known = a.blocks[i].count > 0 && b.blocks[i].count > 0;
    const Total a_without = a.whole.without(a.blocks[i]), b_without = b.whole.without(b.blocks[i]);
    const auto alone = [&](double whole, double without) { return known ? n * whole - (n - 1) * without : unknown; };
    ratio.blocks[i] = alone(ratio.log, log_of(a_without, b_without));
    differences[i] = alone(ratio.b - ratio.a, b_without.mean() - a_without.mean());
  }
  // Blocks spread by nine times as much as the figures without them, so this error is the jackknife's.
  if (const auto spread = estimate_of(ratio.blocks)) {
    const double least = more > 0 ? least_error(with_more(a.whole, b.whole), with_more(b.whole, a.whole)) : 0;
    ratio.estimate = Estimate{ratio.log, std::max(spread->standard_error, least), spread->degrees};
  }
  if (const auto spread = estimate_of(differences); spread && more > 0) {
    const auto [of_a, of_b] = ones_of(values, window, a.whole, b.whole);
    ratio.difference = DifferenceOfShares(of_a, of_b, values.paired, *spread);
  }
  return ratio;
}

}  // namespace

Ratio share_ratio(const SideValues& values, const Window& window) { return ratio_of(values, window, 0.5); }

Ratio mean_ratio(const SideValues& values, const Window& window) { return ratio_of(values, window, 0); }

}  // namespace weir::metrics::compare::statistics
