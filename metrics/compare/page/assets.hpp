// The files of this folder, as the build has put them into the program.
#pragma once

#include <string_view>

namespace weir::metrics::compare::page::assets {

extern const std::string_view page_html, page_css, plots_js, parts_js, described_js, report_js, charts_js, forest_js;
extern const std::string_view uplot_js, uplot_css, uplot_licence;

}  // namespace weir::metrics::compare::page::assets
