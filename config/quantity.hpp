// Reads and writes times and sizes as text, such as "250ms" and "16MiB": one number and one unit, with at most a space
// between them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/settings.hpp"

namespace weir::config {

/// Reads "250ms", "1.5s", "5m", "2h". Returns nothing if the text is no such time. A time is finite and not negative.
std::optional<Seconds> parse_duration(std::string_view text);

/// Reads "512B", "64KiB", "1MB" (1000 * 1000), in whole numbers only. Returns nothing if the text is no such size or is
/// beyond 2^63.
std::optional<std::int64_t> parse_size(std::string_view text);

/// Returns the shortest text that the functions above read back; "0" for zero.
std::string format_duration(Seconds time);
std::string format_size(std::int64_t bytes);

/// Returns a number without an exponent, as short as it reads back: "0.001", "1000".
std::string format_number(double number);

}  // namespace weir::config
