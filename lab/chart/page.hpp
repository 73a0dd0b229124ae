// A document with charts as one HTML page, in the frame of the comparison's pages.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lab/chart/chart.hpp"
#include "metrics/compare/report/document.hpp"

namespace weir::lab::chart {

/// The charts that stand under the heading with this `about`, before its first table.
struct Figures {
  std::string about;
  std::vector<std::variant<Chart, Histogram>> charts;
};

/// Returns the page. Its title is shown above the document too.
std::string as_html(std::string_view title, const metrics::compare::report::Document& document,
                    const std::vector<Figures>& figures);

}  // namespace weir::lab::chart
