// Moments as text, as the request log has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::metrics::compare::samples {

/// Reads RFC 3339, such as 2026-11-21T07:00:00.123456Z or 2026-11-21T08:00:00+01:00. Returns microseconds since 1970,
/// finer digits cut off; nothing for any other text. A leap second counts as the second before it.
std::optional<std::int64_t> parse_rfc3339(std::string_view text);

/// Writes a moment in UTC, in whole seconds: 2026-11-21T07:00:00Z.
std::string format_rfc3339(std::int64_t us);

}  // namespace weir::metrics::compare::samples
