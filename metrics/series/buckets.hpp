// The exported bucket bounds (MEASUREMENT.md, section 3), in integers: nanoseconds, tokens, thousandths.
//
// Constant-initialised, so that a histogram of static storage may use them. Ascending.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/settings.hpp"

namespace weir::metrics::series {

extern const std::span<const std::uint64_t> latency_bounds;    ///< TTFT and queue, ns.
extern const std::span<const std::uint64_t> per_token_bounds;  ///< ITL, ICL, TPOT, ns.
extern const std::span<const std::uint64_t> duration_bounds;   ///< Whole requests, ns.
extern const std::span<const std::uint64_t> overhead_bounds;   ///< What weir adds to a token, ns.
extern const std::span<const std::uint64_t> size_bounds;       ///< Tokens.
extern const std::span<const std::uint64_t> ratio_bounds;      ///< Thousandths.
/// Thousandths of a token per second: in whole tokens the sum, and with it the mean of slow streams, would be off.
extern const std::span<const std::uint64_t> speed_bounds;

extern const std::span<const std::uint64_t> loop_delay_bounds;  ///< Lateness of a loop's tick, ns.

/// The bounds of the histograms that an objective can be about: those above and its thresholds, so that attainment can
/// be read from a bucket. One set for all replicas of all pools, or else `sum by (le)` would add unlike buckets.
struct Bounds {
  explicit Bounds(std::span<const config::Slo> slos = {});
  std::vector<std::uint64_t> latency, per_token, duration;
};

}  // namespace weir::metrics::series
