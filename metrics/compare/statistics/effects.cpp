#include "metrics/compare/statistics/effects.hpp"

#include <algorithm>
#include <cmath>

#include "metrics/compare/statistics/quantile.hpp"

namespace weir::metrics::compare::statistics {
namespace {

std::vector<Point> ratios_of(const SideValues& values) {
  std::vector<Point> ratios;
  ratios.reserve(values.a.size());
  for (std::size_t i = 0; i < values.a.size(); ++i) {
    ratios.push_back({values.a[i].at_us, std::log(values.b[i].value / values.a[i].value)});
  }
  return ratios;
}

}  // namespace

BlockValues log_ratios(const SideValues& values, const Window& window) {
  if (values.paired) return block_medians(ratios_of(values), window);
  const BlockValues a = block_medians(values.a, window), b = block_medians(values.b, window);
  BlockValues ratios;
  for (std::size_t i = 0; i < block_count; ++i) ratios[i] = std::log(b[i] / a[i]);
  return ratios;
}

std::vector<double> log_ratios_by_minute(const SideValues& values, const Window& window) {
  if (values.paired) return minute_medians(ratios_of(values), window);
  std::vector<double> a = minute_medians(values.a, window);
  const std::vector<double> b = minute_medians(values.b, window);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::log(b[i] / a[i]);
  return a;
}

SideValues above_p95_of_a(const SideValues& values, const Window& window) {
  std::vector<double> of_a;
  for (const Point& point : values.a) {
    if (window.holds(point.at_us)) of_a.push_back(point.value);
  }
  const double p95 = quantile(std::span(of_a), 0.95);
  SideValues above = values;
  for (auto* side : {&above.a, &above.b}) {
    for (Point& point : *side) point.value = point.value > p95 ? 1 : 0;
  }
  return above;
}

}  // namespace weir::metrics::compare::statistics
