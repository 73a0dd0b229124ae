// All that /api/live tells of one second, as plain values. Figures makes it; the rules of findings and the JSON read
// it. docs/reference/api.md defines each figure. An absent value is unknown.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/moment.hpp"
#include "metrics/record/request_log.hpp"
#include "metrics/vocabulary.hpp"
#include "proxy/live/seconds.hpp"

namespace weir::proxy::live {

using Wall = std::chrono::system_clock::time_point;
using metrics::Moment;
/// Counts by word; only words that have some.
using Words = std::vector<std::pair<std::string_view, double>>;

/// How one metric of a shadow compares.
struct ComparedMetric {
  std::string_view metric, finding;
  std::uint64_t count = 0;
  std::optional<double> value_a{}, value_b{}, estimate{}, low{}, high{}, needs_seconds{};
  double margin = 0;
};
struct ComparisonNow {
  std::string shadow, a, b;
  std::string_view state, answers;
  std::uint64_t pairs = 0, warming = 0, lost = 0;
  Wall made{};
  std::vector<ComparedMetric> metrics{};
};
struct RolloutNow {
  std::string name;
  std::string_view state;
  double share = 0;
};

/// Facts of weir itself that the rooms above know.
struct Surroundings {
  std::string why_not_ready{};  ///< "" if it is ready.
  bool draining = false, bypass = false;
  Wall loaded{};  ///< The settings in use were read then.
  bool last_reload_ok = true;
  std::vector<std::string> reload_errors{};
  std::size_t connections = 0, connections_limit = 0;
  std::size_t buffer_bytes = 0, buffer_limit_bytes = 0;
  metrics::record::RequestLog::Account log{};
  bool log_loses = false;
  std::string log_why{};  ///< Why it loses lines; "" if it does not.
  std::vector<ComparisonNow> comparisons{};
  std::vector<RolloutNow> rollouts{};
};

struct WeirNow : Surroundings {
  std::string version{}, instance{};
  Wall started{};
  double uptime_seconds = 0;
  std::size_t threads = 0;
  std::optional<double> cpu{}, memory_bytes{}, descriptors{}, descriptors_limit{};
  std::optional<double> loop_delay_p99{}, overhead_p99{};
  std::optional<Wall> certificate_ends{};
  std::optional<double> bypass_seconds{};  ///< Bypass has been on for so long.
  Words limits_60s{};
  double log_lost_60s = 0;  ///< Lines of the request log.
};

struct PoolNow {
  std::string name;
  std::size_t replicas = 0, up = 0;
  std::uint32_t in_flight = 0;
  std::optional<std::uint32_t> max_in_flight{};
  std::uint64_t queued_tokens = 0;
  std::optional<std::uint64_t> max_queued_tokens{};
  std::size_t waiting = 0, queue = 0, waiting_tokens = 0;
  std::optional<double> oldest_waiting{}, oldest_unanswered{};
  double requests_per_s = 0, failed_per_s = 0, refused_per_s = 0, tokens_in_per_s = 0, tokens_out_per_s = 0;
  double requests_60s = 0, refused_60s = 0;
  Words outcomes_60s{};
  Latencies::Quantiles latencies{};  ///< Figures::complete adds them, here and below, and the peaks.
  struct Objective {
    std::string name;
    double good_60s = 0, bad_60s = 0;
  };
  std::optional<Objective> slo{};
  struct Peak {
    std::string_view figure;
    std::optional<double> most;
  };
  std::vector<Peak> peaks{};
};

/// A replica as the settings have it.
struct ReplicaSettings {
  std::string row;  ///< The key of its row: its name, or "NAME (leaving)", "NAME (leaving 2)".
  std::string name, pool, shadow, config, gpu, url;
  metrics::Role role = metrics::Role::primary;
  double weight = 1;
  std::optional<std::uint32_t> max_in_flight{};
};
struct ReplicaStands {
  metrics::ReplicaState state = metrics::ReplicaState::down;
  double state_seconds = 0;
  Wall since{};  ///< The state's begin.
  std::string reason;
  std::string address;  ///< The one in use; "" before it is found.
  bool asleep = false;  ///< It is in, and its engine says that it sleeps.
  bool leaving = false;
  bool injection_disabled = false;  ///< It refused to be asked for usage.
};
/// The pool's books of a replica.
struct ReplicaBooks {
  std::uint32_t in_flight = 0;
  std::optional<double> in_prefill{}, in_decode{};
  std::uint64_t queued_prefill_tokens = 0, queued_decode_tokens = 0, resident_tokens = 0;
  std::optional<double> oldest_unanswered{}, silent{};
  double usual_ttft = 0;  ///< What an idle replica is taken to need for a prompt of 1000 tokens, in seconds.
  std::string idle;       ///< Why the latest requests went to busy replicas, while it has none.
};
struct ReplicaCounts {
  double requests_per_s = 0, failed_per_s = 0, tokens_in_per_s = 0, tokens_out_per_s = 0;
  double requests_60s = 0, failed_60s = 0, retries_60s = 0;
  double empty_60s = 0;                       ///< Answers with status 2xx and nothing in them.
  double streams_60s = 0, coalesced_60s = 0;  ///< Streams, and those whose ITL is suspect.
  std::optional<double> share{}, tokens_per_busy_s{}, cached_share{};
};
struct ReplicaTimes {
  Latencies::Quantiles latencies{};
  std::optional<double> recent_ttft{}, recent_gap{};  ///< Medians of the last seconds, in seconds.
  double recent_ttfts = 0, recent_gaps = 0;           ///< Of so many observations.
  std::optional<double> ttft_by_peers{}, gap_by_peers{};
  /// Half of the predicted times to first token were right within this share.
  std::optional<double> prediction_error{};
  std::optional<double> estimate_ratio{};
  double estimates = 0;  ///< The ratio is of so many requests.
};
/// What the engine tells of itself; where it tells no use of the KV cache, weir's books do.
struct ReplicaEngine {
  std::string engine, engine_version, model;
  std::optional<std::uint64_t> max_context{}, kv_tokens{};
  std::optional<double> kv_usage{};
  bool kv_by_engine = false;
  std::optional<double> engine_running{}, engine_waiting{}, divergence{}, prefix_queries{}, prefix_hits{};
};
struct ReplicaNow : ReplicaSettings, ReplicaStands, ReplicaBooks, ReplicaCounts, ReplicaTimes, ReplicaEngine {};

struct ShadowNow {
  std::string name, of, twin;
  std::optional<double> sample{};
  bool control = false, on = true;
  std::optional<Wall> began{};
  std::uint32_t in_flight = 0, max_in_flight = 0;
  std::uint64_t queued_tokens = 0;
  std::optional<double> silent{};
  double sent_60s = 0;
  Words dropped_60s{};
  std::uint64_t pairs = 0;
};

struct KeyNow {
  std::string name;
  std::uint32_t open = 0, waiting = 0;
  std::optional<std::uint32_t> max_in_flight{};
  std::optional<double> wait{};  ///< Mean wait of those whose turn came in the last 10 s.
  double waits = 0;              ///< Of so many.
  double requests_60s = 0, failed_60s = 0, refused_60s = 0;
  double requests_per_s = 0, tokens_in_per_s = 0, tokens_out_per_s = 0;
};

struct Now {
  Moment at{};
  Wall time{};
  std::uint64_t serial = 0;  ///< Counts the seconds since the start, those that were missed among them.
  WeirNow weir{};
  std::vector<PoolNow> pools{};
  std::vector<ReplicaNow> replicas{};
  std::vector<ShadowNow> shadows{};
  std::vector<KeyNow> keys{};
  std::size_t keys_left_off = 0;
};

}  // namespace weir::proxy::live
