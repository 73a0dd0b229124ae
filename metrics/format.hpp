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

}  // namespace weir::metrics
