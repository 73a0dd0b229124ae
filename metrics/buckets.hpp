// The exported bucket bounds (MEASUREMENT.md, section 3), in integers: nanoseconds, tokens, thousandths.
#pragma once

#include <cstdint>
#include <span>

namespace weir::metrics {

extern const std::span<const std::uint64_t> latency_bounds;    ///< TTFT and queue, ns.
extern const std::span<const std::uint64_t> per_token_bounds;  ///< ITL, ICL, TPOT, ns.
extern const std::span<const std::uint64_t> duration_bounds;   ///< Whole requests, ns.
extern const std::span<const std::uint64_t> overhead_bounds;   ///< What weir adds to a token, ns.
extern const std::span<const std::uint64_t> size_bounds;       ///< Tokens.
extern const std::span<const std::uint64_t> ratio_bounds;      ///< Thousandths.
extern const std::span<const std::uint64_t> speed_bounds;      ///< Tokens per second.

}  // namespace weir::metrics
