// The tables of a report that have the sides beside each other.
#pragma once

#include <span>
#include <string_view>

#include "metrics/compare/report/document.hpp"
#include "metrics/compare/report/report.hpp"

namespace weir::metrics::compare::report {

/// Adds the figures of each side. A row that no side knows is left out.
void add_sides(Document& document, const Report& report);

/// Adds a row for each side of each stratum; the change of b against a stands in the first. One stratum alone says
/// nothing new and is left out.
void add_strata(Document& document, const Report& report, std::span<const comparison::Stratum> strata,
                std::string_view heading);

void add_load_points(Document& document, const Report& report);
void add_cheapest(Document& document, const Report& report);

}  // namespace weir::metrics::compare::report
