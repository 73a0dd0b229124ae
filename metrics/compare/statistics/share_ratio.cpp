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

/// The least standard errors of the logarithm and of the difference.
struct LeastErrors {
  double log = 0, difference = 0;
};

/// Returns the least errors of shares. Blocks without a one do not vary, yet the next request may be one.
///
/// - The logarithm: a one more on either side.
/// - The difference: where n requests of the side with fewer have no one, its share is below -ln(level) / n, as 3 of n
///   at 5 % (Hanley and Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249, 1983). That is t
///   times sqrt(8/3) / n to 1 % with 9 degrees of freedom, at one-sided levels of 0.5 to 5 %. The ones by which one
///   side has more than the other were drawn, too, so their number varies by its root; those of a few blocks seldom
///   show it.
LeastErrors least_errors(const Total& a, const Total& b, double difference) {
  const auto growth = [](const Total& side) { return std::log1p(1 / side.sum); };
  const double count = difference > 0 ? b.count : a.count;
  return {std::hypot(growth(a), growth(b)),
          std::hypot(std::sqrt(8.0 / 3) / std::min(a.count, b.count), std::sqrt(std::abs(difference) / count))};
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
  const auto with_error = [](double whole, const BlockValues& blocks, double least) {
    const auto spread = estimate_of(blocks);
    if (!spread) return std::optional<Estimate>();
    return std::optional(Estimate{whole, std::max(spread->standard_error, least), spread->degrees});
  };
  LeastErrors least;
  if (more > 0) least = least_errors(with_more(a.whole, b.whole), with_more(b.whole, a.whole), difference);
  ratio.estimate = with_error(ratio.log, ratio.blocks, least.log);
  ratio.difference = with_error(difference, differences, least.difference);
  return ratio;
}

}  // namespace

Ratio share_ratio(const SideValues& values, const Window& window) { return ratio_of(values, window, 0.5); }

Ratio mean_ratio(const SideValues& values, const Window& window) { return ratio_of(values, window, 0); }

}  // namespace weir::metrics::compare::statistics
