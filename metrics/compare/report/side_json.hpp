// A side of a comparison as JSON, and the figures that other parts of a report have as well.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/compare/report/json_writer.hpp"
#include "metrics/compare/sides/side.hpp"

namespace weir::metrics::compare::report {

/// Unknown figures are null.
void write(JsonWriter& json, const std::optional<statistics::Interval>& interval);
void write(JsonWriter& json, std::string_view name, const statistics::Distribution& distribution);
void write(JsonWriter& json, std::string_view name, const std::optional<statistics::Measured>& measured);
void write_counts(JsonWriter& json, std::string_view name, const std::map<std::string, std::uint64_t>& counts);

void write(JsonWriter& json, const sides::Side& side);

}  // namespace weir::metrics::compare::report
