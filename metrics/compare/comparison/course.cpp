#include "metrics/compare/comparison/course.hpp"

#include <algorithm>
#include <cmath>

#include "metrics/compare/comparison/looks.hpp"
#include "metrics/compare/comparison/margins.hpp"
#include "metrics/compare/statistics/change.hpp"

namespace weir::metrics::compare::comparison {

statistics::Minutes minutes_of(statistics::Metric metric, const statistics::SideValues& held,
                               const statistics::Window& window, const Past* past) {
  if (!past || !past->from_us) return log_ratios_by_minute(held, window);
  statistics::Minutes minutes = past->minutes_of(metric);
  if (!past->is_over()) {
    const auto rest = log_ratios_by_minute(held, {past->until_us, std::max(window.to_us, past->until_us)});
    minutes.insert(minutes.end(), rest.begin(), rest.end());
  }
  const auto whole = static_cast<std::size_t>((window.to_us - window.from_us) / Past::minute_us);
  minutes.resize(std::min({minutes.size(), whole, Past::most_minutes}));
  return minutes;
}

std::vector<Changed> changes_of(const Times& times, const statistics::Window& window, const Options& options,
                                const Past* past) {
  std::vector<Changed> changes;
  if (window.seconds() > longest_s) return changes;
  for (const auto& [metric, values] : times.each()) {
    const auto minutes = minutes_of(metric, *values, window, past);
    const auto change = statistics::change_in(minutes, std::log1p(margin_of(metric, options)));
    if (!change) continue;
    const auto since_us = window.from_us + static_cast<std::int64_t>(change->at) * Past::minute_us;
    changes.push_back({metric, since_us, statistics::shown(change->after - change->before)});
  }
  return changes;
}

std::vector<statistics::Metric> drifting(const Times& times, const statistics::Window& window, const Past* past) {
  constexpr double shortest_s = 1800, most = 0.67;
  std::vector<statistics::Metric> result;
  const double length = window.seconds();
  if (!reaches(length, shortest_s) || length > longest_s) return result;
  for (const auto& [metric, values] : times.each()) {
    if (statistics::lag_one_autocorrelation(minutes_of(metric, *values, window, past)) > most)
      result.push_back(metric);
  }
  return result;
}

}  // namespace weir::metrics::compare::comparison
