#include "lab/chart/page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "metrics/compare/page/assets.hpp"

namespace weir::lab::chart {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

std::string page(const std::string& name) {
  metrics::compare::report::Document document;
  document.heading("Decode", "decode");
  document.paragraph(name);
  Chart chart;
  chart.title = name;
  chart.series = {{name, {{1, 2, "32", "32 at once"}}}};
  Histogram histogram;
  histogram.edges = {1, 2, 4};
  histogram.series = {{name, {3, 0}}};
  return as_html(name, document, {{"decode", {chart, histogram}}});
}

json::value data_of(const std::string& html) {
  constexpr std::string_view tag = R"(<script type="application/json" id="report">)";
  const auto from = html.find(tag) + tag.size();
  return json::parse(html.substr(from, html.find("</script", from) - from));
}

TEST(ChartPage, HoldsWordsAndChartsAsData) {
  const auto data = data_of(page("h800"));
  EXPECT_EQ(data.at("title"), "h800");
  EXPECT_EQ(data.at("parts").at(0).at("about"), "decode");
  const auto& charts = data.at("charts").at("decode");
  EXPECT_EQ(charts.at(0).at("kind"), "points");
  EXPECT_EQ(charts.at(0).at("series").at(0).at("points").at(0).at("mark"), "32");
  EXPECT_EQ(charts.at(1).at("kind"), "bars");
  EXPECT_EQ(charts.at(1).at("series").at(0).at("counts"), (json::array{3, 0}));
  for (const auto& chart : charts.as_array()) {
    const std::string kind(chart.at("kind").as_string());
    EXPECT_THAT(std::string(metrics::compare::page::assets::described_js), HasSubstr("function " + kind + "(")) << kind;
  }
}

}  // namespace
}  // namespace weir::lab::chart
