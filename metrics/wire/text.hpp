// Counting code points, in raw JSON strings and in pieces of unescaped text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::metrics::wire {

/// Code points of the inside of a JSON string, escapes undone (a surrogate pair is one). Absent if `body` could not
/// stand between two quotes: a bare quote, a control byte, a broken escape, an odd backslash at its end, broken UTF-8.
std::optional<std::uint64_t> code_points_of_string_body(std::string_view body);

/// Code points that begin in a piece of UTF-8 text: may be cut anywhere, and the counts of the pieces add up.
std::uint64_t code_points_begun(std::string_view piece);

}  // namespace weir::metrics::wire
