// Figures as the cells of a report's tables. What is not known is unknown_cell.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "metrics/compare/statistics/distribution.hpp"
#include "metrics/compare/statistics/measured.hpp"
#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::report {

inline constexpr auto unknown_cell = "-";

/// Writes three digits that count: 0.0123, 4.56, 789, 12345.
std::string short_number(double value);
std::string short_number(const std::optional<double>& value, double factor = 1);

/// "97.31 %"
std::string share(const std::optional<double>& value);
/// "+8.1 %", or "+7.0 % to +9.2 %"; of stalls seconds per 1000 requests, "+2.1".
std::string change(statistics::Figure figure, const std::optional<double>& value);
std::string change(statistics::Figure figure, const std::optional<statistics::Interval>& interval);

/// Leaves out an interval that begins below 0, where the figure cannot lie.
std::string with_interval(const std::optional<statistics::Measured>& measured, double factor = 1);
/// Writes a figure in the unit that suits it: "27.2 ms", "1.50 s" or "104"; of stalls "12.3".
std::string figure(statistics::Figure figure, const std::optional<double>& value);
/// Writes the quantiles, and how many values they are of.
std::string quantiles(const statistics::Distribution& distribution, double factor);

}  // namespace weir::metrics::compare::report
