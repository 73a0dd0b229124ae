#include "metrics/compare/page/page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::page {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using ::testing::Not;

report::Report twin_report(std::string_view name_b = "fp8", double slower = 1.1) {
  TwinSamples samples;
  for (std::uint64_t i = 0; i < 900; ++i) {
    auto& a = samples.primary(static_cast<std::int64_t>(i) * 2 * second);
    a.ttft *= static_cast<float>(1 + 0.1 * uniform(i, 1));
    auto& b = samples.shadow(a, "cand0", name_b, name_b);
    b.tpot *= static_cast<float>(slower + 0.01 * uniform(i, 2));
  }
  report::ReportOptions options;
  options.comparison = options_of(samples);
  options.comparison.b = samples.config(name_b);
  return make_report(samples.all(), samples.names, options);
}

std::string without(std::string text, std::string_view part) {
  const auto at = text.find(part);
  if (at == std::string::npos) {
    ADD_FAILURE() << "there is no " << part;
    return text;
  }
  return text.erase(at, part.size());
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Returns what a browser takes for the data: all from the element's tag to the first end tag.
json::array data_of(const std::string& page) {
  constexpr std::string_view tag = R"(<script type="application/json" id="report">)";
  EXPECT_EQ(count(page, tag), 1U);
  const auto from = page.find(tag) + tag.size();
  return json::parse(page.substr(from, page.find("</script", from) - from)).as_array();
}

TEST(Page, NeedsNothingBesideIt) {
  auto page = as_html(twin_report());
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  page = without(page, "/*! https://github.com/leeoniya/uPlot (v1.6.32) */");
  page = without(page, "\"http://www.w3.org/2000/svg\"");
  for (const auto* const part :
       {"http:", "https:", "src=", "href", "@import", "url(", "//cdn", "{{", "fetch(", "XMLHttp"})
    EXPECT_EQ(count(page, part), 0U) << part << page.substr(page.find(part) - 40, 80);
  EXPECT_EQ(page.find("<!DOCTYPE html>"), 0U);
  EXPECT_EQ(count(page, "</html>"), 1U);
}

/// A table of three sides is wider than a page. If its cells may not break, the last column is cut.
TEST(Page, CellsOfTablesMayBreak) { EXPECT_THAT(std::string(assets::page_css), Not(HasSubstr("nowrap"))); }

TEST(Page, HoldsEachOfItsFilesOnce) {
  const auto page = as_html(twin_report());
  for (const auto asset : {assets::page_css, assets::report_js, assets::plots_js, assets::parts_js, assets::uplot_js,
                           assets::uplot_css, assets::uplot_licence}) {
    ASSERT_FALSE(asset.empty());
    EXPECT_EQ(count(page, asset), 1U) << asset.substr(0, 80);
  }
  EXPECT_THAT(page, HasSubstr("Copyright (c) 2022 Leon Sorokin"));
}

TEST(Page, SaysWhatTextAndJsonSay) {
  const auto report = twin_report();
  const auto sections = data_of(as_html(report));
  ASSERT_EQ(sections.size(), 1U);
  EXPECT_EQ(sections[0].at("report"), json::parse(as_json(report)));
  EXPECT_EQ(sections[0].at("parts"), json::parse(document_of(report).json()));
  const auto text = as_text(report, report::Style::plain);
  for (const auto& part : sections[0].at("parts").as_array()) {
    for (const auto* const kind : {"heading", "item"}) {
      const auto* words = part.as_object().if_contains(kind);
      if (words) {
        EXPECT_THAT(text, HasSubstr(std::string(words->as_string().subview(0, 60))));
      }
    }
  }
}

TEST(Page, ANameStaysText) {
  const auto scripts = count(as_html(twin_report()), "<script");
  for (const std::string name :
       {"</script><script>alert(1)</script>", "<!--<script>", "</SCRIPT >", "a\"b\\", "{{uplot_js}}", "<b>&amp;"}) {
    const auto report = twin_report(name);
    const auto page = as_html(report);
    EXPECT_EQ(count(page, "<script"), scripts) << name;
    EXPECT_EQ(count(page, "alert(1)</script>"), 0U);
    const auto sections = data_of(page);
    EXPECT_EQ(sections[0].at("report"), json::parse(as_json(report))) << name;
    EXPECT_EQ(sections[0].at("report").at("b"), json::value(name));
  }
}

/// Names from logs reach the page by textContent, so no file of the page writes markup.
TEST(Page, WritesNoMarkup) {
  for (const auto asset : {assets::report_js, assets::plots_js, assets::parts_js, assets::described_js}) {
    for (const auto* const way : {"innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "new Function",
                                  "DOMParser", "createContextualFragment"})
      EXPECT_EQ(count(asset, way), 0U) << way;
  }
}

/// A heading that a chart belongs to says so, and the page knows each of them.
TEST(Page, KnowsWhereItsChartsBelong) {
  std::set<std::string> headings;
  const auto parts = json::parse(document_of(twin_report()).json());
  for (const auto& part : parts.as_array()) {
    const auto* about = part.as_object().if_contains("about");
    if (about && !about->as_string().empty()) headings.emplace(about->as_string());
  }
  EXPECT_EQ(headings, (std::set<std::string>{"verdicts", "distributions", "load_points"}));
  for (const auto& about : headings) EXPECT_THAT(std::string(assets::report_js), HasSubstr("    " + about + ": {"));
}

TEST(Page, ReadsMembersThatTheReportHas) {
  const auto report = json::parse(as_json(twin_report()));
  const std::string scripts(assets::report_js);
  const std::regex member(R"(\b(report|window|verdict|side|point)\.(?=([a-z_]+)))");
  const std::set<std::string> made_here{"shown"};
  const auto& side = report.at("sides").at(0).as_object();
  const std::pair<std::string, const json::object*> objects[]{{"report", &report.as_object()},
                                                              {"window", &report.at("window").as_object()},
                                                              {"verdict", &report.at("verdicts").at(0).as_object()},
                                                              {"point", &side.at("load_points").at(0).as_object()}};
  std::size_t seen = 0;
  for (std::sregex_iterator it(scripts.begin(), scripts.end(), member), end; it != end; ++it) {
    const std::string name = (*it)[2];
    for (const auto& [object, has] : objects) {
      if ((*it)[1] != object || made_here.contains(name)) continue;
      ++seen;
      EXPECT_TRUE(has->contains(name)) << it->str();
    }
    if ((*it)[1] == "side") {
      ++seen;
      EXPECT_TRUE(side.contains(name)) << it->str();
    }
  }
  EXPECT_GT(seen, 30U);
}

/// An empty report has a page as well.
TEST(Page, WithoutRequestsIsThere) {
  const samples::Names names;
  report::ReportOptions options;
  const auto sections = data_of(as_html(make_report({}, names, options)));
  EXPECT_EQ(sections[0].at("report").at("state"), "too_few");
}

}  // namespace
}  // namespace weir::metrics::compare::page
