// Latency against throughput, by the number of requests in flight: where a replica stops giving throughput for free.
// Every point was measured; none is between.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "metrics/compare/sides/minutes.hpp"
#include "metrics/compare/statistics/measured.hpp"

namespace weir::metrics::compare::sides {

/// The minutes in which a replica had about so many requests in flight. Rates are for one replica (one GPU). Each
/// minute is one value, so where load drifts slowly the intervals are too narrow.
struct LoadPoint {
  double in_flight = 0;  ///< The mean over the point's minutes.
  std::uint64_t minutes = 0, requests = 0, good = 0, bad = 0;
  statistics::Measured output_tokens_per_second, total_tokens_per_second, requests_per_minute;
  std::optional<statistics::Measured> ttft;                        ///< From the minutes' medians, in seconds.
  std::optional<statistics::Measured> tokens_per_second_per_user;  ///< 1 / the median TPOT of each minute.
};

/// Returns the points in order of load. Up to 8 in flight each number is a point; beyond, each octave has four. Minutes
/// with less than half a request in flight belong to none.
std::vector<LoadPoint> load_points(std::span<const ReplicaMinute> minutes);

/// How much one replica takes while it meets the objective.
struct Capacity {
  enum class State : std::uint8_t {
    too_few,      /// There are too few judged requests at any load.
    none,         ///< Attainment was below least_attainment at the lowest load already.
    found,        ///< More load broke it.
    not_reached,  ///< Every measured point met it, so the capacity is at least this.
  };
  State state = State::too_few;
  std::optional<LoadPoint> at;  ///< With found and not_reached: the point with the highest output rate.
};
inline constexpr double least_attainment = 0.99;

/// Looks at the points with at least 100 judged requests, in order of load, up to the first that misses.
Capacity capacity_of(std::span<const LoadPoint> points);

}  // namespace weir::metrics::compare::sides
