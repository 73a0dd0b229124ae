// The tables of a report that have the sides beside each other.
#pragma once

#include "metrics/compare/report/document.hpp"
#include "metrics/compare/report/report.hpp"

namespace weir::metrics::compare::report {

/// Adds the figures of each side. A row that no side knows is left out.
void add_sides(Document& document, const Report& report);

void add_load_points(Document& document, const Report& report);

}  // namespace weir::metrics::compare::report
