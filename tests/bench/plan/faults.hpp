// Four engines of which one dies, hangs, slows down or serves another model, and returns: what it costs requests behind
// weir, and behind round robin with plain health checks. bench_failures prints it, and a unit test holds weir to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lab/plan/simulation.hpp"

namespace weir::lab::plan {

enum class Fault : std::uint8_t { none, three_of_four, kill, hang, half_speed, wrong_model, flap, rolling_restart };

struct FaultRun {
  // In seconds.
  static constexpr double fault_at = 60, back_at = 120, end_at = 200;

  Results results;
  std::optional<double> out_after;  ///< Seconds from the fault until a replica was ejected or down.
  std::size_t stuck = 0;            ///< Requests that had no first token 30 s after the end.
  double share_of_ill =
      0;  ///< The faulty replica's share of the prompt tokens, from 30 s after the fault to its return.
  /// The faulty replica's queued tokens and its peers' mean, in each 5 s of the 60 s after its return.
  std::vector<std::pair<double, double>> after_return;
};

FaultRun run_with(Fault fault, bool plain, std::uint64_t seed, std::span<const TracedRequest> requests, double rate);

/// Returns the 99th percentile of the times to first token of those that arrived from `from` to `to`, over all runs.
double p99_ttft(std::span<const FaultRun> runs, double from, double to);

/// Returns the highest ratio of the returned replica's queued tokens to its peers' mean in any 5 s, summed over the
/// runs.
double highest_after_return(std::span<const FaultRun> runs);

}  // namespace weir::lab::plan
