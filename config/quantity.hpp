// Times and sizes as text: "250ms", "16MiB". One number and one unit, a space between them allowed, nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/settings.hpp"

namespace weir::config {

/// "250ms", "1.5s", "5m", "2h". Nothing where the text is no such thing; not negative, always finite.
std::optional<Seconds> parse_duration(std::string_view text);

/// "512B", "64KiB", "1MB" (1000 * 1000): whole numbers only. Nothing where the text is no such thing or beyond 2^63.
std::optional<std::int64_t> parse_size(std::string_view text);

/// The shortest way to write a quantity that the functions above read back; "0" for nothing at all.
std::string format_duration(Seconds time);
std::string format_size(std::int64_t bytes);

/// A number without an exponent, as short as it reads back: "0.001", "1000".
std::string format_number(double number);

}  // namespace weir::config
