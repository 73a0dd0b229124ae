#include "metrics/compare/bootstrap.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "metrics/compare/quantile.hpp"

namespace weir::metrics::compare {
namespace {

constexpr std::uint64_t seed = 12;
using Weights = std::array<std::uint64_t, block_count>;  ///< How often each block was drawn.

/// The values of one side, sorted, block by block and all together.
class Sorted {
 public:
  Sorted(const std::vector<Point>& points, const Window& window) {
    for (const Point& point : points) {
      if (window.holds(point.at_us)) blocks_[window.block_of(point.at_us)].push_back(point.value);
    }
    for (auto& block : blocks_) {
      std::sort(block.begin(), block.end());
      all_.insert(all_.end(), block.begin(), block.end());
    }
    std::sort(all_.begin(), all_.end());
  }

  std::size_t size() const { return all_.size(); }
  bool whole() const {
    return std::none_of(blocks_.begin(), blocks_.end(), [](const auto& block) { return block.empty(); });
  }

  /// Returns the smallest value that at least a share `q` of the drawn values do not exceed.
  double quantile(double q, const Weights& weights) const {
    std::uint64_t drawn = 0;
    for (std::size_t i = 0; i < block_count; ++i) drawn += weights[i] * blocks_[i].size();
    const auto rank = static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(drawn)));
    return *std::partition_point(all_.begin(), all_.end(), [&](double value) {
      std::uint64_t below = 0;
      for (std::size_t i = 0; i < block_count; ++i) {
        if (weights[i] == 0) continue;
        const auto end = std::upper_bound(blocks_[i].begin(), blocks_[i].end(), value);
        below += weights[i] * static_cast<std::uint64_t>(end - blocks_[i].begin());
      }
      return below < rank;
    });
  }

 private:
  std::array<std::vector<double>, block_count> blocks_;
  std::vector<double> all_;
};

}  // namespace

std::optional<QuantileRatio> bootstrap(const SideValues& values, const Window& window, double q, unsigned resamples) {
  const Sorted a(values.a, window), b(values.b, window);
  const double least = 1 / (1 - q);
  if (!a.whole() || !b.whole() || resamples == 0) return std::nullopt;
  if (static_cast<double>(std::min(a.size(), b.size())) < least) return std::nullopt;
  const auto ratio = [&](const Weights& weights) { return b.quantile(q, weights) / a.quantile(q, weights) - 1; };
  Weights once;
  once.fill(1);
  QuantileRatio result{ratio(once), {}};
  std::mt19937_64 random(seed);
  std::vector<double> ratios(resamples);
  for (double& one : ratios) {
    Weights weights{};
    for (std::size_t draw = 0; draw < block_count; ++draw) ++weights[random() % block_count];
    one = ratio(weights);
  }
  result.interval = {quantile(std::span(ratios), 0.025), quantile(std::span(ratios), 0.975)};
  return result;
}

}  // namespace weir::metrics::compare
