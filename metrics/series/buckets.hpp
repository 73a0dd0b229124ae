// The exported bucket bounds (docs/reference/metrics.md) are integers: nanoseconds, tokens or thousandths, in ascending
// order.
//
// The bounds are constant-initialised, so that a histogram of static storage may use them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "config/settings.hpp"

namespace weir::metrics::series {

extern const std::span<const std::uint64_t> latency_bounds;    ///< TTFT and queue, in ns.
extern const std::span<const std::uint64_t> per_token_bounds;  ///< ITL, ICL and TPOT, in ns.
extern const std::span<const std::uint64_t> duration_bounds;   ///< Whole requests, in ns.
extern const std::span<const std::uint64_t> overhead_bounds;   ///< The latency that weir adds to a token, in ns.
extern const std::span<const std::uint64_t> size_bounds;       ///< Tokens.
extern const std::span<const std::uint64_t> ratio_bounds;      ///< Thousandths.
/// Thousandths of a token per second. In whole tokens the sum, and so the mean of slow streams, would be wrong.
extern const std::span<const std::uint64_t> speed_bounds;

extern const std::span<const std::uint64_t> loop_delay_bounds;  ///< The lateness of a loop's tick, in ns.

/// The bounds of the histograms that objectives use: the bounds above and the objectives' thresholds, so that
/// attainment can be read from a bucket. All replicas of all pools share one set, or `sum by (le)` would add unlike
/// buckets.
struct Bounds {
  explicit Bounds(std::span<const config::Slo> slos = {});
  std::vector<std::uint64_t> latency, per_token, duration;
};

/// The objectives of requests, and the bounds that follow from them. The object never changes; a reload makes another.
struct Objectives {
  explicit Objectives(std::vector<config::Slo> all = {}) : slos(std::move(all)), bounds(slos) {}
  std::vector<config::Slo> slos;
  Bounds bounds;
};

}  // namespace weir::metrics::series
