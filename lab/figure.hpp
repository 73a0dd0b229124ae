// A figure as tables and sentences show it.
#pragma once

#include <cmath>
#include <string>

#include "lab/text.hpp"

namespace weir::lab {

/// Returns three digits that count, and all digits before the point.
inline std::string figure(double value) {
  return value == 0 || std::abs(value) >= 100 ? format("%.0f", value) : format("%.3g", value);
}

}  // namespace weir::lab
