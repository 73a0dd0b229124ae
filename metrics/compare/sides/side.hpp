// The figures of one side of a comparison: a configuration, a replica or a role, over a window.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "metrics/compare/samples/attainment.hpp"
#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/sides/load_points.hpp"
#include "metrics/compare/sides/minutes.hpp"
#include "metrics/compare/statistics/distribution.hpp"
#include "metrics/compare/statistics/measured.hpp"

namespace weir::metrics::compare::sides {

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
  statistics::Distribution ttft, ttft_client, tpot, e2e;  ///< In seconds.
  statistics::Distribution decode_speed;                  ///< In tokens per second.
  statistics::Distribution prompt_tokens, output_tokens, reasoning_tokens;  ///< Served requests only.
};

struct Side : Quantiles {
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
  std::optional<Capacity> capacity;     ///< With an objective.
  std::optional<double> cost_per_hour;  ///< The sum over its replicas.
  std::optional<Cost> cost, cost_at_capacity;
  std::optional<double> cost_per_million_output_chars;
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

}  // namespace weir::metrics::compare::sides
