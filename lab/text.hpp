// Formats words and figures for the tables of the lab, and reads numbers.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/format.hpp"

namespace weir::lab {

using metrics::format;

/// Returns "1 stream", "2 streams".
inline std::string counted(unsigned long long n, const char* what) {
  return format("%llu %s%s", n, what, n == 1 ? "" : "s");
}

/// Returns the number that all of a text is. `base` is for whole numbers.
template <class Number>
std::optional<Number> number_in(std::string_view text, auto... base) {
  Number number{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number, base...);
  return failed == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace weir::lab
