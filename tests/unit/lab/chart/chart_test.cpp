#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <limits>
#include <numeric>

#include "lab/chart/chart.hpp"
#include "metrics/compare/page/page.hpp"
#include "metrics/utf8.hpp"

namespace weir::lab::chart {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t from = 0;
  for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', from)) {
    lines.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return lines;
}

std::size_t letters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, &metrics::begins_code_point));
}

/// Returns where a letter stands, counted in letters; npos if it does not.
std::size_t column(const std::string& line, std::string_view letter) {
  const auto at = line.find(letter);
  return at == std::string::npos ? at : letters(std::string_view(line).substr(0, at));
}

Chart two_points() {
  Chart chart;
  chart.title = "Decode";
  chart.x_label = "ms a token";
  chart.y_label = "tokens/s";
  chart.series = {{"decode", {{10, 100, "1", ""}, {20, 1'000, "32", ""}}}};
  return chart;
}

TEST(Edges, GrowByOneFactorAndHoldBothEnds) {
  EXPECT_THAT(logarithmic_edges(1, 8, 3), ElementsAre(1, testing::DoubleEq(2), testing::DoubleEq(4), 8));
  const auto edges = logarithmic_edges(5, 5, 4);
  ASSERT_EQ(edges.size(), 5u) << "those of equal values still have a width";
  EXPECT_LT(edges.front(), 5);
  EXPECT_GT(edges.back(), 5);
}

TEST(Binned, LosesNoValue) {
  const std::vector<double> edges{1, 2, 4, 8};
  EXPECT_THAT(binned({1, 1.5F, 2, 3.9F, 4, 8, 0.5F, 99}, edges), ElementsAre(3, 2, 3));
}

TEST(Bars, HaveTheFullHeightForTheMostAndShowASingleValue) {
  EXPECT_EQ(bars({0, 1, 400, 200}), " ▁█▄");
  EXPECT_EQ(bars({0, 0}), "  ");
  EXPECT_EQ(bars({}), "");
}

TEST(TextChart, PutsLatencyToTheRightAndThroughputUpward) {
  const auto lines = lines_of(as_text(two_points(), false));
  std::size_t low = 0, high = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].ends_with("●1")) low = i;
    if (lines[i].find("32●") != std::string::npos) high = i;
  }
  ASSERT_GT(low, 0u);
  ASSERT_GT(high, 0u);
  EXPECT_LT(high, low);
  EXPECT_GT(column(lines[high], "●"), column(lines[low], "●"));
  EXPECT_THAT(lines.back(), HasSubstr("ms a token"));
}

TEST(TextChart, BeginsAtZeroSoThatNoiseLooksSmall) {
  Chart chart{"Noise", "", "ms", "tokens/s", {{"decode", {{7.00, 100, "1", ""}, {7.23, 102, "2", ""}}}}};
  const auto lines = lines_of(as_text(chart, false));
  const auto drawn = [](const std::string& line) { return line.find("●") != std::string::npos; };
  EXPECT_EQ(std::ranges::count_if(lines, drawn), 1) << "both points are on the top row";
  EXPECT_THAT(lines.at(lines.size() - 3), HasSubstr("0 │")) << "the lowest row of the plot";
  EXPECT_THAT(lines.back(), testing::StartsWith("     0 "));
}

TEST(TextChart, IsNoWiderThanATerminalAndHasColoursOnlyThere) {
  auto chart = two_points();
  chart.series.push_back({"other", {{12, 300, "2", ""}, {12, 301, "4", ""}}});
  for (const auto& line : lines_of(as_text(chart, false))) {
    EXPECT_LE(letters(line), 80u) << line;
    EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  }
  EXPECT_THAT(as_text(chart, true), HasSubstr("\x1b[33m○\x1b[0m"));
  EXPECT_THAT(as_text(chart, false), HasSubstr("● decode   ○ other"));
}

TEST(TextChart, IsDrawnOfWhateverNumbersToo) {
  constexpr double most = std::numeric_limits<double>::max(), infinite = std::numeric_limits<double>::infinity();
  for (const double odd : {most, -most, infinite, -infinite, std::numeric_limits<double>::quiet_NaN(), 1e-320}) {
    auto chart = two_points();
    chart.series[0].points.push_back({odd, 100, "", ""});
    chart.series[0].points.push_back({10, odd, "", ""});
    chart.series[0].points.push_back({-most, most, "", ""});
    EXPECT_THAT(as_text(chart, false), HasSubstr("●")) << odd;
  }
}

TEST(TextChart, OfOnePointOrAtZeroIsDrawnAndWithoutPointsIsASentence) {
  auto chart = two_points();
  chart.series[0].points.clear();
  EXPECT_EQ(as_text(chart, false), "Decode\nThere is nothing to draw.\n");
  for (const double at : {0.0, 7.0}) {
    chart.series[0].points = {{at, at, "8", ""}};
    EXPECT_THAT(as_text(chart, false), HasSubstr(at == 0 ? "●8" : "8●"));
  }
}

namespace json = boost::json;

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
