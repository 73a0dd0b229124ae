// The report as one HTML page: no network, no file beside it. The page's own HTML, CSS and JavaScript are the files of
// this folder, which the build puts into the program (embed.cmake); the data lies in it as JSON.
#pragma once

#include <string>

#include "metrics/compare/report/report.hpp"

namespace weir::metrics::compare::page {

std::string as_html(const report::Report& report);
std::string as_html(const report::CandidatesReport& report);

}  // namespace weir::metrics::compare::page
