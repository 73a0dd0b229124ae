// A side of a comparison as JSON and as a column of tables, by one table of its figures; and the figures that other parts
// of a report have as well.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/compare/report/report.hpp"
#include "metrics/compare/sides/side.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::compare::report {

using wire::JsonWriter;

/// Unknown figures are null.
void write(JsonWriter& json, const std::optional<statistics::Interval>& interval);
void write_counts(JsonWriter& json, const std::map<std::string, std::uint64_t>& counts);

void write(JsonWriter& json, const sides::Side& side);

/// Adds the figures of each side. A row that no side knows is left out.
void add_sides(Document& document, const Report& report);

void add_load_points(Document& document, const Report& report);

}  // namespace weir::metrics::compare::report
