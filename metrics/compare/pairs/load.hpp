// Whether both sides had the same load, and what one of them was spared. Latency depends on load.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "metrics/compare/pairs/pairing.hpp"

namespace weir::metrics::compare::pairs {

/// Requests that one side had and finished, and the other did not.
struct Spared {
  std::uint64_t requests = 0;
  /// The same by reason: a drop reason, an outcome, or not_mirrored.
  std::map<std::string, std::uint64_t> by_reason{};
  double prompt_tokens = 0;  ///< A share of the sampled requests' prompt tokens.
};

struct Load {
  bool same = true;
  double in_flight_a = 0, in_flight_b = 0;  ///< Mean number in flight while a request ran; NaN if unknown.
  std::uint64_t sampled = 0;                ///< Requests that both sides were to have. 0 in a split, as all below.
  Spared a{}, b{};                          ///< What each side was spared.
  double prompt_tokens = 0;                 ///< Of the sampled requests.
  /// Requests without a finished answer of a shadow, by reason; also those that both sides lack.
  std::map<std::string, std::uint64_t> unfinished{};

  /// Adds what was counted of other requests before. Numbers in flight, and whether the loads were the same, stay those
  /// of this one.
  void add_earlier(const Load& earlier);

  /// The side was spared more requests than the other, by 1 % of the sampled ones: its latency may look better than it
  /// is, and is not worse than it looks.
  bool helped_a() const { return helped(a, b); }
  bool helped_b() const { return helped(b, a); }

 private:
  bool helped(const Spared& side, const Spared& other) const {
    return side.requests > other.requests && 100 * (side.requests - other.requests) > sampled;
  }
};

/// The sides' shadows, and the replicas whose requests are mirrored, as pairs tell.
struct MirroredSides {
  bool shadow_a = false, shadow_b = false;
  std::set<samples::Names::Name> replicas;

  void add(const Pair& pair);
};

/// The pairing holds what lies in the window. A request without its other half counts only if it was dispatched before
/// `complete_us`, since a later one may still run. Without `same_load`, a shadow had its primary's load if it had the
/// requests of one replica alone and at least half of them; and the sides of a split if they share their pools. `sides`
/// is the knowledge of earlier pairs.
Load load_of(const Pairing& pairing, const samples::Names& names, std::optional<bool> same_load,
             std::int64_t complete_us, MirroredSides sides = {});

}  // namespace weir::metrics::compare::pairs
