#include "lab/chart/chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "metrics/compare/report/cells.hpp"
#include "metrics/utf8.hpp"

namespace weir::lab::chart {
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

}  // namespace weir::lab::chart
