#include "proxy/live/latencies.hpp"

#include <cmath>
#include <limits>
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

}  // namespace weir::proxy::live
