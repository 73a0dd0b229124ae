#include "metrics/compare/page/page.hpp"

#include <string_view>
#include <utility>

#include "metrics/compare/page/assets.hpp"
#include "metrics/compare/report/json_writer.hpp"
#include "metrics/compare/report/report_document.hpp"

namespace weir::metrics::compare::page {
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

/// A section has a title, or "", the words of a report, and the report itself if there are charts to draw.
std::string section(std::string_view title, const report::Document& document, const report::Report* report) {
  report::JsonWriter json;
  json.text(title);
  return "{\"title\":" + json.written() + ",\"parts\":" + document.json() +
         ",\"report\":" + (report ? as_json(*report) : "null") + '}';
}

/// Fills the places {{NAME}} of the page. What is put in is not searched again.
std::string filled(std::string_view sections) {
  const std::string report = in_script(sections);
  const std::pair<std::string_view, std::string_view> places[]{
      {"licence", assets::uplot_licence}, {"uplot_css", assets::uplot_css},
      {"page_css", assets::page_css},     {"report", report},
      {"uplot_js", assets::uplot_js},     {"plots_js", assets::plots_js},
      {"forest_js", assets::forest_js},   {"charts_js", assets::charts_js},
      {"report_js", assets::report_js}};
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

}  // namespace

std::string as_html(const report::Report& report) {
  return filled('[' + section("", document_of(report), &report) + ']');
}

std::string as_html(const report::SwappedReport& report) {
  return filled('[' + section("", summary_of(report), nullptr) + ',' +
                section("First window", document_of(report.first), &report.first) + ',' +
                section("Second window", document_of(report.second), &report.second) + ']');
}

}  // namespace weir::metrics::compare::page
