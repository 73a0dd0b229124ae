// The frame of a page that needs no network: uPlot, its styles and what shows words, tables and charts lie in it. What
// stands in it comes as JSON, and scripts draw it.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weir::metrics::compare::page {

/// The texts are the program's own and stand in the page as HTML. What users named belongs into the data.
struct Frame {
  std::string_view title;
  std::string_view without_scripts;  ///< The text for a reader without JavaScript.
  std::string_view footer;
  std::span<const std::string_view> scripts;  ///< In the order in which they run, behind plots.js and parts.js.
};

/// Returns the page. `data` is JSON, which the scripts find in the element #report.
std::string framed(const Frame& frame, std::string_view data);

}  // namespace weir::metrics::compare::page
