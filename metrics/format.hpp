// printf into a string, for tables.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace weir::metrics {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char brief[128];
  const int length = std::snprintf(brief, sizeof brief, pattern, values...);
  if (length < 0) return {};
  const auto size = static_cast<std::size_t>(length);
  if (size < sizeof brief) return {brief, size};
  std::string text(size, '\0');
  std::snprintf(text.data(), size + 1, pattern, values...);
  return text;
}

/// Writes a number with so many digits behind its point, and with its sign unless all digits are 0: "+8.1", "-0.3",
/// "0.0".
inline std::string with_sign(double value, int digits) {
  auto text = format("%+.*f", digits, value);
  if (text.find_first_not_of("+-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

}  // namespace weir::metrics
