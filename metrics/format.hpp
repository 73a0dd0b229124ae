// printf into a string, for tables.
#pragma once

#include <cstdio>
#include <string>

namespace weir::metrics {

/// Returns at most 255 bytes.
template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
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
