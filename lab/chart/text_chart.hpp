// A chart in letters, for a terminal.
#pragma once

#include <string>

#include "lab/chart/chart.hpp"

namespace weir::lab::chart {

/// Draws points with the marks beside them and a legend if there is more than one series. Colours are only for a
/// terminal. A chart without points is a sentence.
std::string as_text(const Chart& chart, bool coloured);

}  // namespace weir::lab::chart
