#include "metrics/compare/report/cells.hpp"

#include <cmath>

#include "metrics/compare/comparison/why.hpp"
#include "metrics/text.hpp"

namespace weir::metrics::compare::report {

std::string short_number(double value) {
  if (!std::isfinite(value)) return unknown_cell;
  return std::abs(value) >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string short_number(const std::optional<double>& value, double factor) {
  return value ? short_number(*value * factor) : unknown_cell;
}

std::string share(const std::optional<double>& value) { return value ? fmt::format("{:.2f} %",
                                                                                   100 * *value) : unknown_cell; }

std::string change(statistics::Figure figure, const std::optional<double>& value) {
  if (!value) return unknown_cell;
  if (figure == statistics::Figure::stalls) return with_sign(*value, 1);
  return std::abs(*value) < 1 ? signed_percent(*value) : with_sign(100 * *value, 0) + " %";
}

std::string change(statistics::Figure figure, const std::optional<statistics::Interval>& interval) {
  if (!interval) return unknown_cell;
  return change(figure, std::optional(interval->low)) + " to " + change(figure, std::optional(interval->high));
}

std::string with_interval(const std::optional<statistics::Measured>& measured, double factor) {
  if (!measured) return unknown_cell;
  std::string text = short_number(measured->value * factor);
  if (const auto& interval = measured->interval; interval && interval->low >= 0)
    text += " (" + short_number(interval->low * factor) + " to " + short_number(interval->high * factor) + ')';
  return text;
}

std::string figure(statistics::Figure figure, const std::optional<double>& value) {
  if (!value) return unknown_cell;
  if (figure == statistics::Figure::output_tokens) return short_number(*value);
  if (figure == statistics::Figure::stalls) return short_number(*value);
  return *value < 1 ? short_number(1e3 * *value) + " ms" : fmt::format("{:.2f} s", *value);
}

std::string quantiles(const statistics::Distribution& distribution, double factor) {
  if (distribution.count == 0) return unknown_cell;
  std::string text;
  for (const auto& one : {distribution.p50, distribution.p90, distribution.p95, distribution.p99})
    text += (text.empty() ? "" : " / ") + short_number(one, factor);
  return text + " (" + std::to_string(distribution.count) + ')';
}

}  // namespace weir::metrics::compare::report
