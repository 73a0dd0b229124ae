#include "metrics/compare/statistics/overlay.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "metrics/compare/statistics/quantile.hpp"

namespace weir::metrics::compare::statistics {
namespace {

std::vector<double> edges_of(std::span<const double> a, std::span<const double> b, unsigned bins) {
  std::vector<double> logs;
  for (const auto side : {a, b}) {
    for (const double value : side) {
      if (value > 0 && std::isfinite(value)) logs.push_back(std::log(value));
    }
  }
  if (logs.empty() || bins == 0) return {};
  // Beyond these a few values would take most of the chart's width.
  constexpr double outside = 0.005, least_width = 0.02;
  double low = quantile(std::span(logs), outside), high = quantile(std::span(logs), 1 - outside);
  if (const double lacks = least_width - (high - low); lacks > 0) {
    low -= lacks / 2;
    high += lacks / 2;
  }
  std::vector<double> edges;
  edges.reserve(bins + 1);
  for (unsigned i = 0; i <= bins; ++i) edges.push_back(std::exp(low + (high - low) * i / bins));
  return edges;
}

Overlay::Values counted(std::vector<double> values, std::span<const double> edges) {
  Overlay::Values counted;
  counted.counts.resize(edges.empty() ? 0 : edges.size() - 1);
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  for (const double value : values) {
    const auto above = static_cast<std::size_t>(std::ranges::upper_bound(edges, value) - edges.begin());
    if (above == 0) {
      ++counted.below;
    } else if (above == edges.size()) {
      ++counted.above;
    } else {
      ++counted.counts[above - 1];
    }
  }
  counted.median = median(std::span(values));
  return counted;
}

}  // namespace

std::uint64_t Overlay::Values::count() const { return std::accumulate(counts.begin(), counts.end(), below + above); }

Overlay overlay_of(Figure figure, std::vector<double> a, std::vector<double> b, unsigned bins) {
  Overlay overlay;
  overlay.figure = figure;
  overlay.edges = edges_of(a, b, bins);
  overlay.a = counted(std::move(a), overlay.edges);
  overlay.b = counted(std::move(b), overlay.edges);
  return overlay;
}

}  // namespace weir::metrics::compare::statistics
