#include "lab/forecast/interval.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "metrics/compare/statistics/quantile.hpp"
#include "metrics/compare/statistics/student_t.hpp"

namespace weir::lab::forecast {

Interval interval_of(std::span<const double> values, double q) {
  constexpr std::size_t parts = 10;
  const auto logarithm = [q](std::vector<double> some) {
    return std::log(metrics::compare::statistics::quantile(std::span(some), q));
  };
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  if (values.size() < 2 * parts) return {unknown, unknown};
  std::array<double, parts> without{};
  for (std::size_t p = 0; p < parts; ++p) {
    const auto first = values.begin();
    std::vector<double> rest(first, first + static_cast<std::ptrdiff_t>(values.size() * p / parts));
    rest.insert(rest.end(), first + static_cast<std::ptrdiff_t>(values.size() * (p + 1) / parts), values.end());
    without[p] = logarithm(std::move(rest));
  }
  const double mean = std::accumulate(without.begin(), without.end(), 0.0) / parts;
  double squares = 0;
  for (const double one : without) squares += (one - mean) * (one - mean);
  const double error = std::sqrt(squares * (parts - 1) / parts);
  const double wide = metrics::compare::statistics::t_two_sided(interval_confidence, parts - 1) * error;
  const double estimate = logarithm({values.begin(), values.end()});
  return {std::exp(estimate - wide), std::exp(estimate + wide)};
}

}  // namespace weir::lab::forecast
