// Formats words and figures for the tables of the lab, and reads numbers.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "config/controls.hpp"
#include "metrics/text.hpp"

namespace weir::lab {

using metrics::counted;
using metrics::with_sign;

/// Returns how a line of a file begins, for an error: without letters that a terminal would obey.
inline std::string beginning_of(std::string_view line) { return config::printable(line.substr(0, 100)); }

/// True for the first line of a file that gzip has made.
inline bool is_compressed(std::string_view first_line) { return first_line.starts_with("\x1f\x8b"); }
inline constexpr std::string_view compressed_file = "the file is compressed: unpack it first, with gunzip";

/// Returns the number that all of a text is. `base` is for whole numbers.
template <class Number>
std::optional<Number> number_in(std::string_view text, auto... base) {
  Number number{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number, base...);
  return failed == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace weir::lab
