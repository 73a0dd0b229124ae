// The table of all exported series: name, meaning, labels, and where the value comes from. /metrics and the reference
// of the metrics are made of it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "metrics/series/exposition.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/series/text_page.hpp"

namespace weir::metrics::series {

/// Says when a replica's counter comes on the page. A series that has appeared stays.
enum class Appears : std::uint8_t {
  from_the_start,  ///< Begins at 0: rates and alerts need every increment of it.
  with_first_use,  ///< Appears once it is not 0: a fleet at rest stays small on the page.
};

/// A histogram that a replica can have: it appears whole, with its first observation. Its bounds and sum are divided by
/// `unit`, so that base units are exported.
struct HistogramSeries {
  SeriesText text;
  double unit;
  const Histogram ReplicaShard::*histogram;
};

/// A counter that every replica has.
struct CounterSeries {
  SeriesText text;
  Appears appears;
  const Counter ReplicaShard::*counter;
};

/// Counters that every replica has, one for each word of a closed set: the values of its one label. All words appear
/// with the first use of one: a share of them is then a number, and no later word loses its first increment to rate().
struct LabelledCounterSeries {
  SeriesText text;
  std::span<const std::string_view> words;
  std::span<const Counter> (*counters)(const ReplicaShard&);
};

/// A plain value that the balancer knows of a replica. Gauges stand from the start; counters appear with their first
/// use.
struct BalancerSeries {
  SeriesText text;
  bool is_counter;
  double (*value)(const ReplicaGauges&);
};

/// A value that not every replica has: what an engine tells of itself, where that is unknown or stale.
struct EngineSeries {
  SeriesText text;
  bool is_counter;
  std::optional<double> ReplicaGauges::*value;
};

/// A value with the label `phase`, which is prefill or decode.
struct PhaseSeries {
  SeriesText text;
  bool is_counter;
  std::array<double, 2> (*values)(const ReplicaGauges&);
};

extern const std::span<const HistogramSeries> histogram_series;
extern const std::span<const CounterSeries> counter_series;
extern const std::span<const LabelledCounterSeries> labelled_counter_series;
extern const std::span<const BalancerSeries> balancer_series;
extern const std::span<const PhaseSeries> phase_series;
extern const std::span<const EngineSeries> engine_series;

// Series that each have a shape of their own.
extern const SeriesText request_duration_series, requests_series, api_requests_series, unparsed_series,
    kv_tokens_series, balancer_fallbacks_series, prefix_tokens_series, prefix_error_series, prefix_wipes_series,
    prefix_held_series, prefix_capacity_series, prefix_believed_series, slo_requests_series, replica_info_series,
    replica_state_series, engine_requests_series, comparison_effect_series, comparison_state_series,
    comparison_same_series, comparison_faults_series, comparison_fault_evidence_series, rollout_share_series,
    rollout_state_series, rollout_moves_series, rollout_crossed_series, finding_series, limit_hits_series,
    denied_series, operator_refusals_series, dropped_fields_series, tls_handshakes_series, requests_waiting_series,
    pool_saturation_series, buffer_memory_series, buffer_memory_limit_series, bypass_series, loop_lag_series,
    loop_delay_series, log_lines_dropped_series, internal_errors_series, last_reload_series,
    last_reload_successful_series, build_info_series;

}  // namespace weir::metrics::series
