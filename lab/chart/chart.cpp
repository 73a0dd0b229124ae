#include "lab/chart/chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

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

}  // namespace weir::lab::chart
