#include "proxy/live/latencies.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "metrics/compare/statistics/quantile.hpp"

namespace weir::proxy::live {
namespace {

std::optional<double> quantile_of(std::vector<float>& values, double q, std::size_t least) {
  if (values.size() < least) return std::nullopt;
  return metrics::compare::statistics::quantile(std::span(values), q);
}

}  // namespace

void Latencies::add(std::optional<double> ttft, std::optional<double> tpot, metrics::Moment now) {
  if (!ttft && !tpot) return;
  constexpr auto unknown = std::numeric_limits<double>::quiet_NaN();
  const One one{now, static_cast<float>(ttft.value_or(unknown)), static_cast<float>(tpot.value_or(unknown))};
  if (ring_.size() < most) {
    ring_.push_back(one);
  } else {
    ring_[next_] = one;
    next_ = (next_ + 1) % most;
  }
}

Latencies::Quantiles Latencies::quantiles(metrics::Moment now, std::chrono::seconds back) const {
  std::vector<float> ttft, tpot;
  for (std::size_t i = 1; i <= ring_.size(); ++i) {  // The latest first.
    const auto& one = ring_[(next_ + ring_.size() - i) % ring_.size()];
    if (now - one.ended > back) break;
    if (!std::isnan(one.ttft)) ttft.push_back(one.ttft);
    if (!std::isnan(one.tpot)) tpot.push_back(one.tpot);
  }
  Quantiles quantiles;
  quantiles.ttft_p50 = quantile_of(ttft, 0.5, 1);
  quantiles.ttft_p95 = quantile_of(ttft, 0.95, least_for_p95);
  quantiles.tpot_p50 = quantile_of(tpot, 0.5, 1);
  return quantiles;
}

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
