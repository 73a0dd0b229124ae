// Writes JSON in one way, so that two texts of one value are the same bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::metrics::wire {

/// Returns `text` with the members of each object in the order of their names, without white space, and with no escape
/// that is not needed. Numbers stay as they are written: 1.0 is not 1. Absent if `text` is not one JSON value, or
/// nested deeper than JsonParser follows.
std::optional<std::string> canonical_json(std::string_view text);

}  // namespace weir::metrics::wire
