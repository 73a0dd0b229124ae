// A chart as data: points joined by lines, or bars of a histogram. A terminal and an HTML page draw the same ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "metrics/compare/report/document.hpp"

namespace weir::lab::chart {

struct Point {
  double x = 0, y = 0;
  std::string mark;  ///< Stands beside the point: "32".
  std::string text;  ///< The page shows it for the point under the pointer.
};

struct Series {
  std::string name;
  std::vector<Point> points;  ///< A line joins them in this order.
};

struct Chart {
  std::string title, hint, x_label, y_label;
  std::vector<Series> series;
};

struct BarSeries {
  std::string name;
  std::vector<std::uint64_t> counts;  ///< Fewer by one than there are edges.
};

/// The bins are equally wide on a logarithmic axis.
struct Histogram {
  std::string title, x_label;
  std::vector<double> edges;
  std::vector<BarSeries> series;
};

/// Returns the edges of `bins` bins that hold all values from `low` to `high`. Both are above 0.
std::vector<double> logarithmic_edges(double low, double high, std::size_t bins);

/// Counts values by bin. A value on an edge is in the bin above it; what lies outside is in the first or the last bin.
std::vector<std::uint64_t> binned(const std::vector<float>& values, const std::vector<double>& edges);

/// Returns a bar of one letter a bin, such as "▁▃█▂"; the highest bin has the full height, an empty one a blank.
std::string bars(const std::vector<std::uint64_t>& counts);

/// Draws points in letters, with the marks beside them and a legend if there is more than one series. Colours are only
/// for a terminal. A chart without points is a sentence.
std::string as_text(const Chart& chart, bool coloured);

// A document with charts as one HTML page, in the frame of the comparison's pages.

/// The charts that stand under the heading with this `about`, before its first table.
struct Figures {
  std::string about;
  std::vector<std::variant<Chart, Histogram>> charts;
};

/// Returns the page. Its title is shown above the document too.
std::string as_html(std::string_view title, const metrics::compare::report::Document& document,
                    const std::vector<Figures>& figures);

}  // namespace weir::lab::chart
