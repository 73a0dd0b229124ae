#include "metrics/compare/page/page.hpp"

#include <string_view>
#include <utility>

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
  const std::string_view scripts[]{assets::report_js};
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

namespace {

/// A name may hold "</script>" or "<!--", which would end the element or hide its end. In JSON a '<' stands only in
/// strings, where it may be an escape.
std::string in_script(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char letter : json) {
    if (letter == '<') {
      out += "\\u003c";
    } else {
      out += letter;
    }
  }
  return out;
}

}  // namespace

/// Fills the places {{NAME}} of the page. What is put in is not searched again.
std::string framed(const Frame& frame, std::string_view data) {
  const std::string in_page = in_script(data);
  std::string scripts;
  for (const std::string_view script : frame.scripts) scripts += script;
  const std::pair<std::string_view, std::string_view> places[]{{"title", frame.title},
                                                               {"licence", assets::uplot_licence},
                                                               {"uplot_css", assets::uplot_css},
                                                               {"page_css", assets::page_css},
                                                               {"without", frame.without_scripts},
                                                               {"footer", frame.footer},
                                                               {"report", in_page},
                                                               {"uplot_js", assets::uplot_js},
                                                               {"plots_js", assets::plots_js},
                                                               {"parts_js", assets::parts_js},
                                                               {"scripts", scripts}};
  std::string out;
  std::string_view rest = assets::page_html;
  for (const auto& [name, text] : places) {
    const auto place = "{{" + std::string(name) + "}}";
    const auto at = rest.find(place);
    out += rest.substr(0, at);
    out += text;
    rest.remove_prefix(at + place.size());
  }
  out += rest;
  return out;
}

}  // namespace weir::metrics::compare::page
