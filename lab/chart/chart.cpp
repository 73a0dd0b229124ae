#include "lab/chart/chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "metrics/compare/page/page.hpp"
#include "metrics/compare/report/document.hpp"
#include "metrics/utf8.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::lab::chart {

std::vector<double> logarithmic_edges(double low, double high, std::size_t bins) {
  // Equal values need a bin that is wider than nothing.
  if (high <= low * 1.001) {
    low *= 0.95;
    high *= 1.05;
  }
  std::vector<double> edges;
  for (std::size_t i = 0; i <= bins; ++i) {
    edges.push_back(low * std::pow(high / low, static_cast<double>(i) / static_cast<double>(bins)));
  }
  return edges;
}

std::vector<std::uint64_t> binned(const std::vector<float>& values, const std::vector<double>& edges) {
  std::vector<std::uint64_t> counts(edges.size() - 1);
  for (const float value : values) {
    const auto above = std::ranges::upper_bound(edges, static_cast<double>(value)) - edges.begin();
    const auto last = static_cast<std::ptrdiff_t>(counts.size()) - 1;
    ++counts[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(above - 1, 0, last))];
  }
  return counts;
}

std::string bars(const std::vector<std::uint64_t>& counts) {
  constexpr std::array<std::string_view, 9> heights{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::uint64_t most = counts.empty() ? 0 : *std::ranges::max_element(counts);
  std::string out;
  for (const std::uint64_t count : counts) {
    const std::uint64_t eighths = most == 0 ? 0 : (8 * count + most - 1) / most;  // One value is seen, too.
    out += heights[eighths];
  }
  return out;
}

namespace {

using metrics::compare::report::short_number;

constexpr std::size_t width = 64;
constexpr std::size_t height = 14;
constexpr std::array<std::string_view, 6> symbols{"●", "○", "■", "□", "▲", "△"};
constexpr std::array<std::string_view, 6> colours{"\x1b[34m", "\x1b[33m", "\x1b[32m",
                                                  "\x1b[35m", "\x1b[36m", "\x1b[31m"};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// An axis begins at 0 where no value is below it, so that noise looks small. No axis is of no length.
  void settle() {
    if (low >= 0) low = 0;
    if (high > low) return;
    const double room = high == 0 ? 1 : 0.1 * std::abs(high);
    if (low < 0) low -= room;
    high += room;
  }
  /// Returns the cell of a value, of so many. What is no number, or too large for one, is at an end of the axis.
  std::size_t cell(double value, std::size_t cells) const {
    const double share = (value - low) / (high - low);
    if (!(share > 0)) return 0;
    return static_cast<std::size_t>(std::lround(std::min(share, 1.0) * static_cast<double>(cells - 1)));
  }
};

/// A letter of the plot: "" is a blank, and a mark has no series.
struct Cell {
  std::string letter;
  std::size_t series = symbols.size();
};

class Plot {
 public:
  void put(std::size_t row, std::size_t column, std::string_view letter, std::size_t series) {
    cells_[row][column] = {std::string(letter), series};
  }
  /// Writes a mark to the right of its point, or to the left where there is no room; nowhere if another is there.
  void put_mark(std::size_t row, std::size_t column, std::string_view mark) {
    const std::size_t length = mark.size();
    if (free(row, column + 1, length + 1)) return write(row, column + 1, mark);
    if (column >= length && free(row, column - length, length)) write(row, column - length, mark);
  }
  std::string row(std::size_t index, bool coloured) const {
    std::string out;
    for (const Cell& cell : cells_[index]) {
      const bool paint = coloured && cell.series < colours.size() && !cell.letter.empty();
      if (paint) out += colours[cell.series];
      out += cell.letter.empty() ? " " : cell.letter;
      if (paint) out += "\x1b[0m";
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  }

 private:
  bool free(std::size_t row, std::size_t from, std::size_t length) const {
    if (from + length > width + 1) return false;
    for (std::size_t i = from; i < std::min(width, from + length); ++i) {
      if (!cells_[row][i].letter.empty()) return false;
    }
    return true;
  }
  void write(std::size_t row, std::size_t from, std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) cells_[row][from + i].letter = std::string(1, text[i]);
  }
  std::array<std::array<Cell, width>, height> cells_;
};

std::string legend(const Chart& chart, bool coloured) {
  std::string out;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const auto symbol = std::string(symbols[i % symbols.size()]);
    out += (i == 0 ? "" : "   ");
    out += coloured ? std::string(colours[i % colours.size()]) + symbol + "\x1b[0m" : symbol;
    out += ' ' + chart.series[i].name;
  }
  return out + '\n';
}

}  // namespace

std::string as_text(const Chart& chart, bool coloured) {
  Range x, y;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      x.take(point.x);
      y.take(point.y);
    }
  }
  std::string out = chart.title + '\n';
  if (x.high < x.low) return out + "There is nothing to draw.\n";
  x.settle();
  y.settle();
  Plot plot;
  const auto each = [&](const auto& put) {
    for (std::size_t i = 0; i < chart.series.size(); ++i) {
      for (const Point& point : chart.series[i].points) {
        put(i % symbols.size(), point, height - 1 - y.cell(point.y, height), x.cell(point.x, width));
      }
    }
  };
  each([&](std::size_t i, const Point&, std::size_t row, std::size_t column) { plot.put(row, column, symbols[i], i); });
  each([&](std::size_t, const Point& point, std::size_t row, std::size_t column) {
    plot.put_mark(row, column, point.mark);
  });

  const std::string top = short_number(y.high), bottom = short_number(y.low);
  const std::size_t room = std::max(top.size(), bottom.size());
  const auto aligned = [room](std::string_view text) {
    return std::string(room - text.size(), ' ') + std::string(text);
  };
  if (chart.series.size() > 1) out += legend(chart, coloured);
  out += chart.y_label + '\n';
  for (std::size_t row = 0; row < height; ++row) {
    out += aligned(row == 0 ? top : row == height - 1 ? bottom : "") + " │" + plot.row(row, coloured) + '\n';
  }
  out += aligned("") + " └";
  for (std::size_t i = 0; i < width; ++i) out += "─";
  const std::string left = short_number(x.low), right = short_number(x.high);
  const auto label_width = static_cast<std::size_t>(std::ranges::count_if(chart.x_label, &metrics::begins_code_point));
  const std::size_t used = left.size() + label_width + right.size();
  const std::size_t gap = used < width ? (width - used) / 2 : 1;
  out += '\n' + aligned("") + "  " + left + std::string(gap, ' ') + chart.x_label +
         std::string(used + gap < width ? width - used - gap : 1, ' ') + right + '\n';
  return out;
}

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
