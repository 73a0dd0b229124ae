#include "metrics/compare/page/page.hpp"

#include <string_view>

#include "metrics/compare/page/assets.hpp"
#include "metrics/compare/page/frame.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::compare::page {
namespace {

/// A section has a title, or "", the words of a report, and the report itself if there are charts to draw.
std::string section(std::string_view title, const report::Document& document, const report::Report* report) {
  wire::JsonWriter json;
  json.open('{').key("title").text(title).key("parts").raw(document.json());
  return json.key("report").raw(report ? as_json(*report) : "null").close('}').written();
}

std::string page_of(std::string_view sections) {
  const std::string_view scripts[]{assets::forest_js, assets::charts_js, assets::report_js};
  return framed(
      {"weir compare",
       "This page draws itself by JavaScript. `weir compare` without --html prints the same report as text.",
       "By <code>weir compare</code>. How verdicts are made: docs/explain/verdicts.md. Times are UTC.", scripts},
      sections);
}

}  // namespace

std::string as_html(const report::Report& report) {
  return page_of('[' + section("", document_of(report), &report) + ']');
}

std::string as_html(const report::CandidatesReport& all) {
  std::string sections = '[' + section("", summary_of(all), nullptr);
  for (const auto& report : all.reports)
    sections += ',' + section("Candidate " + report.comparison.b, document_of(report), &report);
  return page_of(sections + ']');
}

}  // namespace weir::metrics::compare::page
