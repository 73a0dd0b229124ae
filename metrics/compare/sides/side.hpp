// The figures of one side of a comparison: a configuration, a replica or a role, over a window.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/statistics/intervals.hpp"

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

// Latency against throughput, by the number of requests in flight: where a replica stops giving throughput for free.
// Every point was measured; none is between.

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

/// The cost of an amount of work, in the currency of the costs given.
struct Cost {
  double per_thousand_requests = 0, per_million_output_tokens = 0;
};

/// The time to the first token as a line over the uncached prompt tokens, of requests that found their replica idle.
struct Prefill {
  statistics::Measured ms_per_thousand_tokens, intercept_ms;
  std::uint64_t requests = 0;
};

/// Quantiles over a range of requests.
struct Quantiles {
  statistics::Distribution ttft, ttft_client, tpot, e2e;                    ///< In seconds.
  statistics::Distribution decode_speed;                                    ///< In tokens per second.
  statistics::Distribution prompt_tokens, output_tokens, reasoning_tokens;  ///< Served requests only.
};

struct Costs {
  std::optional<double> cost_per_hour;  ///< The sum over the replicas.
  std::optional<Cost> cost, cost_at_capacity;
  std::optional<double> cost_per_million_output_chars;
};

struct Side : Quantiles, Costs {
  std::string name;
  std::string label;     ///< What a report calls it: its name, and the [[shadow]]'s where two sides have one name.
  bool compared = true;  ///< One of the two that a comparison is about.
  Role role = Role::primary;
  std::vector<std::string> replicas;
  std::uint64_t requests = 0;  ///< Without those that a shadow was spared.
  std::array<std::uint64_t, outcome_names.size()> outcomes{};
  std::map<std::string, std::uint64_t> dropped;  ///< A shadow's requests that were dropped, by reason.
  std::optional<double> rpm, error_share, slo_attainment;
  std::uint64_t slo_good = 0, slo_bad = 0;
  statistics::Distribution itl;  ///< In seconds, of served requests.
  std::uint64_t prompt_tokens_sum = 0, output_tokens_sum = 0, output_chars_sum = 0;
  std::optional<double> cached_share;
  double busy_s = 0;  ///< Summed over replicas.
  /// For one replica, while it was busy.
  std::optional<double> output_tokens_per_second, total_tokens_per_second, output_chars_per_second;
  std::optional<double> in_flight_mean;  ///< The mean that requests found on their replica.
  std::optional<Prefill> prefill;
  std::vector<LoadPoint> points;
  std::optional<Capacity> capacity;  ///< With an objective.
};

struct SideOptions {
  statistics::Window window;
  samples::Objective objective;
  /// Returns what a replica costs an hour.
  std::function<std::optional<double>(std::string_view replica, std::string_view config)> cost_per_hour;
};

/// Returns the cached tokens over the prompt tokens of which it is known how many were cached.
std::optional<double> cached_share_of(Samples samples);

/// Describes one side by all its samples in the window. Costs O(n log n).
Side describe(std::string name, Role role, Samples samples, const samples::Names& names, const SideOptions& options);

// The requests that were to be mirrored and were sent to no shadow, by reason: the drop_reason of the request log.

using Drops = std::map<std::string, std::uint64_t>;

/// "1800 requests: max_in_flight 1200, primary_waits 600", the most frequent reason first.
std::string counts_text(const Drops& drops);

/// Returns a sentence that says what to change about the most frequent reason; "" if there is none.
std::string help_against(const Drops& drops);

}  // namespace weir::metrics::compare::sides
