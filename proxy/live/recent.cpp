#include "proxy/live/recent.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace weir::proxy::live {

void Recent::take(std::span<const std::uint64_t> bounds, std::span<const std::uint64_t> counts, double fade,
                  double most) {
  came_ = 0;
  for (auto& weight : weights_) weight *= fade;
  if (!std::ranges::equal(bounds, bounds_)) {
    // The counts of other bounds are no earlier ones of these. A weight moves to the bucket that has its upper bound.
    std::vector<double> moved(counts.size(), 0.0);
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const auto at = i < bounds_.size() ? std::ranges::lower_bound(bounds, bounds_[i]) - bounds.begin()
                                         : static_cast<std::ptrdiff_t>(bounds.size());
      moved[static_cast<std::size_t>(at)] += weights_[i];
    }
    weights_ = std::move(moved);
    bounds_.assign(bounds.begin(), bounds.end());
  } else {
    const auto grown = [&](std::size_t i) {
      return counts[i] > before_[i] ? static_cast<double>(counts[i] - before_[i]) : 0.0;
    };
    for (std::size_t i = 0; i < counts.size(); ++i) came_ += grown(i);
    const double weight = came_ > most ? most / came_ : 1;
    for (std::size_t i = 0; i < counts.size(); ++i) weights_[i] += weight * grown(i);
  }
  before_.assign(counts.begin(), counts.end());
}

double Recent::count() const { return std::accumulate(weights_.begin(), weights_.end(), 0.0); }

std::optional<double> Recent::quantile(double q) const {
  const double all = count();
  if (all < 0.5) return std::nullopt;
  double below = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (below + weights_[i] < q * all || weights_[i] == 0) {
      below += weights_[i];
      continue;
    }
    if (i == bounds_.size()) break;
    const double low = i == 0 ? 0 : static_cast<double>(bounds_[i - 1]), high = static_cast<double>(bounds_[i]);
    return low + (high - low) * (q * all - below) / weights_[i];
  }
  return bounds_.empty() ? 0.0 : static_cast<double>(bounds_.back());
}

std::optional<double> Recent::bound_of_quantile(double q) const {
  const double all = count();
  if (all < 0.5) return std::nullopt;
  double below = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    below += weights_[i];
    if (below >= q * all) return static_cast<double>(bounds_[i]);
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace weir::proxy::live
