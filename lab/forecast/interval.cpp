#include "lab/forecast/interval.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "lab/engine/random.hpp"
#include "metrics/compare/statistics/quantile.hpp"
#include "metrics/compare/statistics/measured.hpp"

namespace weir::lab::forecast {
namespace {

constexpr std::size_t parts = 20;
constexpr std::size_t draws = 100;

void add_part(std::vector<double>& values, const std::vector<double>& run, std::size_t part) {
  const auto at = [&run](std::size_t p) { return run.begin() + static_cast<std::ptrdiff_t>(run.size() * p / parts); };
  values.insert(values.end(), at(part), at(part + 1));
}

double variance_of(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  const auto squares = [mean](double sum, double value) { return sum + (value - mean) * (value - mean); };
  return std::accumulate(values.begin(), values.end(), 0.0, squares) / (count - 1);
}

}  // namespace

Interval interval_of(std::span<const std::vector<double>> runs, double q) {
  const auto logarithm = [q](std::vector<double> some) {
    return std::log(metrics::compare::statistics::quantile(std::span(some), q));
  };
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> all, of_runs, of_draws;
  for (const std::vector<double>& run : runs) {
    if (run.size() < 2 * parts) return {unknown, unknown};
    all.insert(all.end(), run.begin(), run.end());
    of_runs.push_back(logarithm(run));
  }
  if (runs.empty()) return {unknown, unknown};
  engine::Random random(1);
  for (std::size_t n = 0; n < draws; ++n) {
    std::vector<double> drawn;
    drawn.reserve(all.size() + all.size() / parts);
    for (std::size_t p = 0; p < parts; ++p) {
      const std::size_t part = random.below(parts);
      for (const std::vector<double>& run : runs) add_part(drawn, run, part);
    }
    of_draws.push_back(logarithm(std::move(drawn)));
  }
  double variance = variance_of(of_draws) * parts / (parts - 1);
  if (runs.size() > 1) variance += variance_of(of_runs);
  const double wide = metrics::compare::statistics::t_two_sided(interval_confidence, parts - 1) * std::sqrt(variance);
  const double estimate = logarithm(std::move(all));
  return {std::exp(estimate - wide), std::exp(estimate + wide)};
}

}  // namespace weir::lab::forecast
