#include "metrics/compare/statistics/measured.hpp"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

namespace weir::metrics::compare::statistics {
namespace {

double sum(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Returns value +- t * error.
Measured with_error(double value, double error, std::size_t degrees) {
  if (degrees == 0) return {value, std::nullopt};
  const double t = t_two_sided(0.95, static_cast<double>(degrees));
  return {value, Interval{value - t * error, value + t * error}};
}

}  // namespace

double t_two_sided(double confidence, double degrees) {
  return boost::math::quantile(boost::math::complement(boost::math::students_t(degrees), (1 - confidence) / 2));
}

std::optional<Measured> measured(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  const auto n = static_cast<double>(values.size());
  const double mean = sum(values) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return with_error(mean, values.size() > 1 ? std::sqrt(squares / (n - 1) / n) : 0, values.size() - 1);
}

std::optional<Line> line_through(std::span<const double> x, std::span<const double> y) {
  if (x.size() < 3) return std::nullopt;
  const auto n = static_cast<double>(x.size());
  const double mean_x = sum(x) / n, mean_y = sum(y) / n;
  double xx = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (xx <= 0) return std::nullopt;
  const double slope = xy / xx, intercept = mean_y - slope * mean_x;
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double off = y[i] - intercept - slope * x[i];
    squares += off * off;
  }
  const double variance = squares / (n - 2);
  return Line{with_error(slope, std::sqrt(variance / xx), x.size() - 2),
              with_error(intercept, std::sqrt(variance * (1 / n + mean_x * mean_x / xx)), x.size() - 2)};
}

}  // namespace weir::metrics::compare::statistics
