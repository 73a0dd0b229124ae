// Formats as printf does into a string, for the tables of the lab.
#pragma once

#include <cstdio>
#include <string>

namespace weir::lab {

/// Returns at most 255 bytes.
template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

/// Returns "1 stream", "2 streams".
inline std::string counted(unsigned long long n, const char* what) {
  return format("%llu %s%s", n, what, n == 1 ? "" : "s");
}

}  // namespace weir::lab
