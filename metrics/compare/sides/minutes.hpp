// Each replica's minutes: the number of requests, the tokens that it made, and the outcomes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "metrics/compare/samples/attainment.hpp"
#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/statistics/window.hpp"

namespace weir::metrics::compare::sides {

using Samples = std::span<const samples::Sample* const>;

/// A replica in one whole minute. A request's prompt tokens are spread over the time to its first token, its output
/// tokens over the time from there to its end.
struct ReplicaMinute {
  samples::Names::Name replica = 0;
  std::int64_t from_us = 0;
  double in_flight = 0;  ///< The mean over the minute.
  double output_tokens = 0, prompt_tokens = 0;
  std::uint32_t requests = 0, good = 0, bad = 0;  ///< Requests that were sent in the minute.
  std::optional<double> ttft, tpot;               ///< The medians of these, in seconds.
};

/// Returns the minutes in which a replica had requests, but for those that are not wholly in the window: of them the
/// log does not hold all. In order of replica and time. Costs O(n log n), and a step for each minute of a request, of
/// which a day counts at most.
std::vector<ReplicaMinute> minutes_of(Samples samples, const statistics::Window& window,
                                      const samples::Objective& objective);

/// Returns for how long the replicas had a request, summed over replicas, in seconds.
double busy_seconds(Samples samples);

}  // namespace weir::metrics::compare::sides
