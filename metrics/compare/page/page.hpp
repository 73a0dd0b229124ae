// The report as one HTML page: no network, no file beside it. The page's own HTML, CSS and JavaScript are the files of
// this folder, which the build puts into the program (embed.cmake); the data lies in it as JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "metrics/compare/report/report.hpp"

namespace weir::metrics::compare::page {

std::string as_html(const report::Report& report);
std::string as_html(const report::CandidatesReport& report);

// The frame of a page that needs no network: uPlot, its styles and what shows words, tables and charts lie in it. What
// stands in it comes as JSON, and scripts draw it.

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

// The files of this folder, as the build has put them into the program.

namespace weir::metrics::compare::page::assets {

extern const std::string_view page_html, page_css, plots_js, parts_js, described_js, report_js;
extern const std::string_view uplot_js, uplot_css, uplot_licence;

}  // namespace weir::metrics::compare::page::assets
