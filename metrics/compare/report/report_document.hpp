// The report as headings, sentences and tables, before it is text, Markdown or a page.
#pragma once

#include "metrics/compare/report/document.hpp"
#include "metrics/compare/report/report.hpp"

namespace weir::metrics::compare::report {

Document document_of(const Report& report);
/// The table of all candidates, without the report of each.
Document summary_of(const CandidatesReport& report);

}  // namespace weir::metrics::compare::report
