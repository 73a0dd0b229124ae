// The report as headings, sentences and tables, before it is text, Markdown or a page.
#pragma once

#include "metrics/compare/document.hpp"
#include "metrics/compare/report.hpp"

namespace weir::metrics::compare {

Document document_of(const Report& report);
/// Without the reports of the two windows.
Document summary_of(const SwappedReport& report);

}  // namespace weir::metrics::compare
