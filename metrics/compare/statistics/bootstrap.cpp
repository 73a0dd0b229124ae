#include "metrics/compare/statistics/bootstrap.hpp"

#include <algorithm>
#include <random>
#include <span>

#include "metrics/compare/statistics/quantile.hpp"

namespace weir::metrics::compare::statistics {

BlockBootstrap::Sorted::Sorted(const std::vector<Point>& points, const Window& window) {
  all_.reserve(points.size());
  for (const Point& point : points) {
    if (window.holds(point.at_us)) blocks_[window.block_of(point.at_us)].push_back(point.value);
  }
  for (auto& block : blocks_) {
    std::sort(block.begin(), block.end());
    const auto middle = static_cast<std::ptrdiff_t>(all_.size());
    all_.insert(all_.end(), block.begin(), block.end());
    std::inplace_merge(all_.begin(), all_.begin() + middle, all_.end());
  }
}

bool BlockBootstrap::Sorted::whole() const {
  return std::none_of(blocks_.begin(), blocks_.end(), [](const auto& block) { return block.empty(); });
}

double BlockBootstrap::Sorted::quantile(double q, const Weights& weights) const {
  std::uint64_t drawn = 0;
  for (std::size_t i = 0; i < block_count; ++i) drawn += weights[i] * blocks_[i].size();
  return quantile_by_number(drawn, q, [&](std::uint64_t number) {
    return *std::partition_point(all_.begin(), all_.end(), [&](double value) {
      std::uint64_t up_to_here = 0;
      for (std::size_t i = 0; i < block_count; ++i) {
        if (weights[i] == 0) continue;
        const auto end = std::upper_bound(blocks_[i].begin(), blocks_[i].end(), value);
        up_to_here += weights[i] * static_cast<std::uint64_t>(end - blocks_[i].begin());
      }
      return up_to_here <= number;
    });
  });
}

BlockBootstrap::BlockBootstrap(const SideValues& values, const Window& window)
    : a_(values.a, window), b_(values.b, window) {}

std::optional<QuantileRatio> BlockBootstrap::ratio(double q, unsigned resamples) const {
  constexpr std::uint64_t seed = 12;
  const double fewest = static_cast<double>(std::min(a_.size(), b_.size()));
  if (resamples == 0 || !a_.whole() || !b_.whole() || fewest * (1 - q) < 1) return std::nullopt;
  const auto of = [&](const Weights& weights) { return b_.quantile(q, weights) / a_.quantile(q, weights) - 1; };
  Weights once;
  once.fill(1);
  QuantileRatio result{of(once), {}};
  std::mt19937_64 random(seed);
  std::vector<double> ratios(resamples);
  for (double& one : ratios) {
    Weights weights{};
    for (std::size_t draw = 0; draw < block_count; ++draw) ++weights[random() % block_count];
    one = of(weights);
  }
  result.interval = {statistics::quantile(std::span(ratios), 0.025), statistics::quantile(std::span(ratios), 0.975)};
  return result;
}

}  // namespace weir::metrics::compare::statistics
