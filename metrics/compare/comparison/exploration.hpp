// Figures of a comparison that carry no verdict.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/statistics/blocks.hpp"
#include "metrics/compare/statistics/effects.hpp"

namespace weir::metrics::compare::comparison {

struct Exploration {
  std::string name;     ///< e2e_at_length_of_a, ttft_p95, ttft_p99, tpot_p95 or tpot_p99.
  double estimate = 0;  ///< b relative to a, as a share of a.
  std::optional<statistics::Interval> interval{};
};

/// Returns what a whole answer would have taken if both were as long as a's, ttft + tpot * (n - 1); and by a bootstrap
/// the tail quantiles, unless `resamples` is 0. What a block has no values for is left out.
std::vector<Exploration> explore(const pairs::Pairing& pairing, const statistics::SideValues& ttft,
                                 const statistics::SideValues& tpot, const statistics::Window& window,
                                 unsigned resamples);

}  // namespace weir::metrics::compare::comparison
