#include "lab/chart/page.hpp"

#include "metrics/compare/page/assets.hpp"
#include "metrics/compare/page/frame.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::lab::chart {
namespace {

using metrics::wire::JsonWriter;

void write(JsonWriter& json, const Chart& chart) {
  json.open('{').key("kind").text("points").key("title").text(chart.title).key("hint").text(chart.hint);
  json.key("x_label").text(chart.x_label).key("y_label").text(chart.y_label).key("series").open('[');
  for (const Series& series : chart.series) {
    json.open('{').key("name").text(series.name).key("points").open('[');
    for (const Point& point : series.points) {
      json.open('{').key("x").decimal(point.x).key("y").decimal(point.y);
      json.key("mark").text(point.mark).key("text").text(point.text).close('}');
    }
    json.close(']').close('}');
  }
  json.close(']').close('}');
}

void write(JsonWriter& json, const Histogram& histogram) {
  json.open('{').key("kind").text("bars").key("title").text(histogram.title);
  json.key("x_label").text(histogram.x_label).key("edges").open('[');
  for (const double edge : histogram.edges) json.decimal(edge);
  json.close(']').key("series").open('[');
  for (const BarSeries& series : histogram.series) {
    json.open('{').key("name").text(series.name).key("counts").open('[');
    for (const std::uint64_t count : series.counts) json.count(count);
    json.close(']').close('}');
  }
  json.close(']').close('}');
}

}  // namespace

std::string as_html(std::string_view title, const metrics::compare::report::Document& document,
                    const std::vector<Figures>& figures) {
  JsonWriter shown;
  shown.text(title);
  JsonWriter charts;
  charts.open('{');
  for (const Figures& under : figures) {
    charts.key(under.about).open('[');
    for (const auto& one : under.charts) std::visit([&](const auto& chart) { write(charts, chart); }, one);
    charts.close(']');
  }
  charts.close('}');
  const std::string data =
      "{\"title\":" + shown.written() + ",\"parts\":" + document.json() + ",\"charts\":" + charts.written() + '}';
  const std::string_view scripts[]{metrics::compare::page::assets::described_js};
  return metrics::compare::page::framed(
      {"weir-lab", "This page draws itself by JavaScript. Without --html weir-lab prints the same as text.",
       "By <code>weir-lab</code>. What each figure means: docs/guides/load-test.md.", scripts},
      data);
}

}  // namespace weir::lab::chart
