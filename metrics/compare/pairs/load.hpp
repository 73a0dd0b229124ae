// Whether both sides had the same load, and what one of them was spared. Latency depends on load.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/statistics/blocks.hpp"

namespace weir::metrics::compare::pairs {

struct Load {
  bool same = true;
  double in_flight_a = 0, in_flight_b = 0;   ///< Mean number in flight while a request ran; NaN if unknown.
  std::uint64_t sampled = 0;                 ///< Requests that both sides were to have. 0 in a split, as all below.
  std::uint64_t spared_a = 0, spared_b = 0;  ///< Requests to which this side, a shadow, has no finished answer.
  /// The same by reason: a drop reason, an outcome, or not_mirrored.
  std::map<std::string, std::uint64_t> unfinished{};
  std::array<std::uint64_t, statistics::block_count> spared_by_block{};
  double prompt_tokens_spared = 0;  ///< A share of the sampled requests' prompt tokens.

  /// More than 1 % of the sampled requests have no finished answer.
  bool spared() const { return 100 * std::max(spared_a, spared_b) > sampled; }
};

/// The pairing holds what lies in the window. A request without its other half counts only if it was dispatched before
/// `complete_us`, since a later one may still run. Without `same_load`, a shadow had its primary's load if it had the
/// requests of one replica alone and at least half of them; and the sides of a split if they share their pools.
Load load_of(const Pairing& pairing, const statistics::Window& window, const samples::Names& names,
             std::optional<bool> same_load, std::int64_t complete_us);

}  // namespace weir::metrics::compare::pairs
