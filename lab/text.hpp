// Formats words and figures for the tables of the lab.
#pragma once

#include <string>

#include "metrics/format.hpp"

namespace weir::lab {

using metrics::format;

/// Returns "1 stream", "2 streams".
inline std::string counted(unsigned long long n, const char* what) {
  return format("%llu %s%s", n, what, n == 1 ? "" : "s");
}

}  // namespace weir::lab
