#include "metrics/series/series.hpp"

namespace weir::metrics::series {
namespace {

using enum Appears;

constexpr double nanoseconds = 1e9;
constexpr double thousandths = 1e3;
constexpr double whole = 1;

constexpr std::string_view directions[] = {"request", "response"};

// The texts below name moments so: t0 = request read from the client, tS = its first byte written to the replica, t1 =
// first token event, tL = last event with a choice; n = output tokens as the engine counts, n1 = those up to the first
// token event.
constexpr HistogramSeries histograms[] = {
    {{"weir_time_to_first_token_seconds",
      "First token event less the first byte sent to the replica: t1 - tS of the attempt that answered. Streams only."},
     nanoseconds,
     &ReplicaShard::time_to_first_token},
    {{"weir_client_time_to_first_token_seconds",
      "First token event less the request's last byte from the client: t1 - t0, weir's queue and all attempts "
      "included. Streams only."},
     nanoseconds,
     &ReplicaShard::client_time_to_first_token},
    {{"weir_inter_token_latency_seconds",
      "Gap g between token events with k tokens: k observations of g/k, where k is known. Streams only."},
     nanoseconds,
     &ReplicaShard::inter_token_latency},
    {{"weir_inter_chunk_latency_seconds",
      "Gap between token events of one choice, however many tokens they carry. Streams only."},
     nanoseconds,
     &ReplicaShard::inter_chunk_latency},
    {{"weir_token_overhead_seconds",
      "Written to the client less arrived in the kernel, of token events whose write was accepted at once."},
     nanoseconds,
     &ReplicaShard::token_overhead},
    {{"weir_time_per_output_token_seconds",
      "Mean time per output token after the first, one observation a choice: (tL - t1) / (n - n1). Streams only."},
     nanoseconds,
     &ReplicaShard::time_per_output_token},
    {{"weir_queue_duration_seconds",
      "First byte sent to the replica less the request's last byte from the client: tS - t0, waiting and connecting."},
     nanoseconds,
     &ReplicaShard::queue_duration},
    {{"weir_request_output_tokens_per_second",
      "Decode speed, one observation a choice: (n - n1) / (tL - t1). Streams only."},
     thousandths,
     &ReplicaShard::request_output_tokens_per_second},
    {{"weir_request_prompt_tokens", "Prompt tokens of a served request, as the engine counts, cached ones included."},
     whole,
     &ReplicaShard::request_prompt_tokens},
    {{"weir_request_output_tokens", "Output tokens of a served request, as the engine counts, all choices together."},
     whole,
     &ReplicaShard::request_output_tokens},
    {{"weir_prompt_estimate_ratio", "Prompt tokens as weir estimated them, divided by those the engine reported."},
     thousandths,
     &ReplicaShard::prompt_estimate_ratio},
    {{"weir_ttft_measured_by_predicted", "Time to first token, divided by what the balancer predicted at its choice."},
     thousandths,
     &ReplicaShard::ttft_measured_by_predicted},
};

constexpr CounterSeries counters[] = {
    {{"weir_prompt_tokens_total", "Prompt tokens the engine reported, cached ones included, whatever the outcome."},
     from_the_start,
     &ReplicaShard::prompt_tokens},
    {{"weir_cached_prompt_tokens_total", "Prompt tokens the engine reported as taken from its prefix cache."},
     from_the_start,
     &ReplicaShard::cached_prompt_tokens},
    {{"weir_prompt_tokens_cache_known_total",
      "Prompt tokens of requests whose cached tokens the engine reported: the denominator of the hit rate."},
     from_the_start,
     &ReplicaShard::prompt_tokens_cache_known},
    {{"weir_output_tokens_total",
      "Output tokens, counted while a stream flows; its end adds what usage says is missing. Aborted and failed "
      "requests count too."},
     from_the_start,
     &ReplicaShard::output_tokens},
    {{"weir_reasoning_tokens_total", "Output tokens that the engine reported as reasoning."},
     with_first_use,
     &ReplicaShard::reasoning_tokens},
    {{"weir_output_tokens_overcounted_total",
      "Output tokens counted beyond what usage said at the end: to be subtracted from weir_output_tokens_total."},
     from_the_start,
     &ReplicaShard::output_tokens_overcounted},
    {{"weir_aborted_output_tokens_total", "Of the output tokens, those of requests whose client left (client_abort)."},
     from_the_start,
     &ReplicaShard::aborted_output_tokens},
    {{"weir_itl_unknown_requests_total",
      "Streams with gaps and no ITL: the tokens of an event are unknown, or the request was not served."},
     with_first_use,
     &ReplicaShard::itl_unknown_requests},
    {{"weir_token_reads_total", "Reads from the replica that brought token events."},
     from_the_start,
     &ReplicaShard::token_reads},
    {{"weir_coalesced_token_reads_total",
      "Those of weir_token_reads_total that brought several token events of one choice: something on the way held "
      "the first ones back."},
     from_the_start,
     &ReplicaShard::coalesced_token_reads},
    {{"weir_itl_suspect_requests_total",
      "Streams of 8 token events or more, most of which arrived together with another one of the same choice. A hop "
      "buffers, and their ITL is too good to be true."},
     with_first_use,
     &ReplicaShard::itl_suspect_requests},
    {{"weir_client_blocked_events_total",
      "Token events whose write the client's connection did not accept at once; weir_token_overhead_seconds leaves "
      "them out."},
     with_first_use,
     &ReplicaShard::client_blocked_events},
};

constexpr LabelledCounterSeries labelled_counters[] = {
    {{"weir_requests_by_token_source_total", "Requests by where the number of their output tokens comes from.",
      "source"},
     token_source_names,
     [](const ReplicaShard& s) -> std::span<const Counter> { return s.requests_by_token_source; }},
    {{"weir_retries_total", "Requests sent once more, by the reason.", "reason"},
     retry_names,
     [](const ReplicaShard& s) -> std::span<const Counter> { return s.retries; }},
    {{"weir_shadow_requests_total",
      "Requests that were to be mirrored: sent, or why the shadow was spared. Of several replicas of a shadow the "
      "first counts for all.",
      "result"},
     mirrored_names,
     [](const ReplicaShard& s) -> std::span<const Counter> { return s.mirrored; }},
    {{"weir_malformed_answers_total",
      "Answers of the replica that break HTTP/1.1, refused or broken off; only surplus was behind a whole answer.",
      "reason"},
     malformed_names,
     [](const ReplicaShard& s) -> std::span<const Counter> { return s.malformed; }},
    {{"weir_bytes_total", "Bytes of bodies: requests sent to the replica, responses received from it.", "direction"},
     directions,
     [](const ReplicaShard& s) -> std::span<const Counter> { return s.bytes; }},
};

constexpr BalancerSeries of_balancer[] = {
    {{"weir_resident_tokens", "Prompt tokens and output tokens so far of all requests in flight on the replica."},
     false,
     [](const ReplicaGauges& g) { return static_cast<double>(g.resident_tokens); }},
    {{"weir_requests_in_flight", "Requests the replica is working on for weir."},
     false,
     [](const ReplicaGauges& g) { return static_cast<double>(g.in_flight); }},
    {{"weir_oldest_unanswered_seconds", "Age of the oldest stream on the replica without a first token; 0 if none."},
     false,
     [](const ReplicaGauges& g) { return g.oldest_unanswered_seconds; }},
    {{"weir_injection_disabled", "1 if the replica refused the request for usage, so that weir no longer adds it."},
     false,
     [](const ReplicaGauges& g) { return g.injection_disabled ? 1.0 : 0.0; }},
    {{"weir_busy_seconds_total", "Time during which the replica had at least one request in flight."},
     true,
     [](const ReplicaGauges& g) { return g.busy_seconds; }},
};

constexpr PhaseSeries by_phase[] = {
    {{"weir_queued_tokens",
      "Work left on the replica: estimated prompt tokens without a first token (prefill), expected output tokens "
      "still to come (decode).",
      "phase"},
     false,
     [](const ReplicaGauges& g) {
       return std::array{static_cast<double>(g.queued_prefill_tokens), static_cast<double>(g.queued_decode_tokens)};
     }},
    {{"weir_in_flight_seconds_total",
      "Integral over time of the requests in flight before (prefill) and after (decode) their first token: its rate "
      "is the mean number.",
      "phase"},
     true,
     [](const ReplicaGauges& g) { return g.in_flight_seconds; }},
};

constexpr EngineSeries of_engine[] = {
    {{"weir_shadow_active", "1 while requests are mirrored to this shadow's replica, 0 while the shadow is off."},
     false,
     &ReplicaGauges::shadow_active},
    {{"weir_engine_kv_usage_ratio", "Share of the engine's KV cache that is in use, 0 to 1, as the engine says."},
     false,
     &ReplicaGauges::engine_kv_usage},
    {{"weir_engine_prefix_cache_queries_total", "Prompt tokens that the engine looked up in its prefix cache."},
     true,
     &ReplicaGauges::engine_prefix_queries},
    {{"weir_engine_prefix_cache_hits_total", "Prompt tokens that the engine found in its prefix cache."},
     true,
     &ReplicaGauges::engine_prefix_hits},
    {{"weir_ledger_divergence_requests",
      "Requests that the engine says it has less those that weir had in flight there. Above 0 for minutes: others "
      "use the engine; below 0: one of the two has lost count."},
     false,
     &ReplicaGauges::ledger_divergence},
    {{"weir_engine_scrape_duration_seconds", "What weir's last reading of the engine's metrics page took."},
     false,
     &ReplicaGauges::engine_scrape_seconds},
};

}  // namespace

constinit const std::span<const HistogramSeries> histogram_series{histograms};
constinit const std::span<const CounterSeries> counter_series{counters};
constinit const std::span<const LabelledCounterSeries> labelled_counter_series{labelled_counters};
constinit const std::span<const BalancerSeries> balancer_series{of_balancer};
constinit const std::span<const PhaseSeries> phase_series{by_phase};
constinit const std::span<const EngineSeries> engine_series{of_engine};

constinit const SeriesText request_duration_series{
    "weir_request_duration_seconds",
    "Last event with a choice (streams, tL) or end of the answer (else, tE) less the request's last byte from the "
    "client (t0).",
    "api, stream"};
constinit const SeriesText requests_series{
    "weir_requests_total",
    "Requests by how they ended, each once, at the replica whose answer or failure the client was told. client_abort "
    "has the phase in which the client left.",
    "outcome, phase"};
constinit const SeriesText api_requests_series{
    "weir_api_requests_total", "The requests of weir_requests_total by API and by whether the answer is a stream.",
    "api, stream, outcome"};
constinit const SeriesText slo_requests_series{
    "weir_slo_requests_total",
    "Requests held against an objective. bad: a threshold missed, a failure of replica or weir, or a client that "
    "left after a threshold had passed. Attainment is good / (good + bad).",
    "slo, result"};
constinit const SeriesText replica_state_series{"weir_replica_state",
                                                "1 for the state that the replica is in, 0 for the others.", "state"};
constinit const SeriesText replica_info_series{"weir_replica_info",
                                               "1; the labels say what the settings and the engine say of the "
                                               "replica.",
                                               "gpu, engine, version, model"};
constinit const SeriesText engine_requests_series{
    "weir_engine_requests", "Requests that the engine says it has, from weir or not, by state.", "state"};
constinit const SeriesText unparsed_series{
    "weir_unparsed_total", "Events or bodies that were relayed but could not be read, by the reason.", "reason"};
constinit const SeriesText kv_tokens_series{"weir_kv_tokens",
                                            "Tokens the replica's KV cache holds; absent where not known."};
constinit const SeriesText balancer_fallbacks_series{
    "weir_balancer_fallbacks_total",
    "Decisions for this replica without what the balancer usually goes by: kv_full, unknown_prompt, or panic (all "
    "are ejected or down).",
    "reason"};
constinit const SeriesText prefix_tokens_series{
    "weir_prefix_tokens_total",
    "Prompt tokens sent to the replica. looked_up: all. best: held by the replica that held most. predicted: held by "
    "this one. moved_away: best less predicted, given up for load. reported: found in its cache, by its own word.",
    "kind"};
constinit const SeriesText prefix_error_series{
    "weir_prefix_error_tokens_total",
    "Prompt tokens that were predicted to be in its prefix cache and were not (over), or were there unpredicted "
    "(under).",
    "direction"};
constinit const SeriesText prefix_wipes_series{
    "weir_prefix_wipes_total",
    "How often its prefix cache was taken to be empty. missed: three large predictions in a row failed. down: "
    "refused connections. restarted: another process. flushed: by a request through weir. asleep: the engine says so.",
    "reason"};
constinit const SeriesText prefix_held_series{"weir_prefix_held_tokens",
                                              "Tokens that the replica's prefix cache is believed to hold."};
constinit const SeriesText prefix_capacity_series{
    "weir_prefix_capacity_tokens", "The most of them: what its engine tells, corrected by what it reports."};
constinit const SeriesText prefix_believed_series{
    "weir_prefix_believed_ratio", "Share of the predicted tokens that comes true, by which predictions are cut."};
constinit const SeriesText requests_waiting_series{
    "weir_requests_waiting", "Requests that wait in weir until a replica of the pool has room for them, or is up.",
    "pool, role"};
constinit const SeriesText pool_saturation_series{
    "weir_pool_saturation",
    "What the pool's requests want, waiting ones included, as a share of what its replicas can take: the larger of "
    "requests by max_in_flight and tokens by kv_tokens. Absent where no bound is known.",
    "pool, role"};
constinit const SeriesText comparison_effect_series{
    "weir_comparison_effect",
    "How a shadow differs from its control, or else its primary, as a share of the latter's figure: 0.08 is 8 % above; "
    "of stalls in seconds per 1000 requests. bound: estimate, low and high of its 95 % interval.",
    "shadow, metric, bound"};
constinit const SeriesText comparison_state_series{
    "weir_comparison_state",
    "1 for the state of a shadow's comparison: too_few while no figure has an interval, then running.",
    "shadow, state"};
constinit const SeriesText comparison_same_series{
    "weir_comparison_same", "1 for whether a shadow's answers are the same: same, differs, unknown.",
    "shadow, answers"};
constinit const SeriesText comparison_faults_series{
    "weir_comparison_faults",
    "Pairs of which one answer alone failed, was empty, was cut at its limit, has an invalid call of a tool or "
    "missed the pool's first objective (slo), by whose it is: shadow, other.",
    "shadow, fault, only"};
constinit const SeriesText comparison_fault_evidence_series{
    "weir_comparison_fault_evidence",
    "Evidence (e-value) that the shadow has more of these faults; from 100 on it is worse, whenever one looks.",
    "shadow, fault"};
constinit const SeriesText rollout_share_series{
    "weir_rollout_share", "Share of its pool's requests that a rollout gives to its candidate, 0 to 1.", "rollout"};
constinit const SeriesText rollout_state_series{"weir_rollout_state", "1 for the state of a rollout, 0 for the others.",
                                                "rollout, state"};
constinit const SeriesText rollout_moves_series{
    "weir_rollout_moves_total", "Changes of a rollout's state or step, by their reason, since weir began.",
    "rollout, reason"};
constinit const SeriesText rollout_crossed_series{
    "weir_rollout_crossed_total",
    "Attempts that went to the other side of a rollout, because their own side had no replica for them.", "rollout"};
constinit const SeriesText buffer_memory_series{
    "weir_buffer_memory_bytes",
    "Memory that grows with clients and replicas, in steps of 4 KiB: requests, what slow clients have not taken, "
    "unfinished events, requests to be mirrored."};
constinit const SeriesText buffer_memory_limit_series{"weir_buffer_memory_limit_bytes", "limits.buffer_memory."};
constinit const SeriesText finding_series{
    "weir_finding", "1 while a finding stands: something wrong that weir can name. docs/reference/api.md lists them.",
    "what, who"};
constinit const SeriesText bypass_series{"weir_bypass",
                                         "1 while what comes is relayed without being read (weir bypass on)."};
constinit const SeriesText limit_hits_series{"weir_limit_hits_total",
                                             "Times a limit of the settings bit, by the limit.", "limit"};
constinit const SeriesText denied_series{
    "weir_denied_requests_total",
    "Requests of clients that were kept out: no key or a wrong one (401), or a model that the key may not use (403).",
    "reason"};
constinit const SeriesText operator_refusals_series{
    "weir_operator_refusals_total",
    "Requests to the admin listener that were refused: no token, wrong tokens, a Host that is not weir's, a change "
    "that its sender may not make.",
    "reason"};
constinit const SeriesText dropped_fields_series{"weir_dropped_fields_total",
                                                 "Header fields of requests that no replica gets, because a _ in their "
                                                 "names could pass for a - there."};
constinit const SeriesText tls_handshakes_series{
    "weir_tls_handshakes_total", "TLS handshakes that have ended, by who was at the other end and how they ended.",
    "side, result"};
constinit const SeriesText loop_lag_series{
    "weir_loop_lag_seconds", "Lateness of the latest tick of a stream loop: how long its events wait.", "loop"};
constinit const SeriesText loop_delay_series{
    "weir_loop_delay_seconds", "Lateness of each tick of a stream loop, ten a second: how long its events wait.",
    "loop"};
constinit const SeriesText log_lines_dropped_series{
    "weir_log_lines_dropped_total", "Lines of the request log lost because its file could not take them in time."};
constinit const SeriesText internal_errors_series{
    "weir_internal_errors_total",
    "Exceptions that ended work of weir's own, by the part of weir: bugs.", "part"};
constinit const SeriesText last_reload_series{"weir_config_last_reload_success_timestamp_seconds",
                                              "Unix time at which the settings in use were loaded."};
constinit const SeriesText last_reload_successful_series{
    "weir_config_last_reload_successful",
    "1 if the settings were loaded when that was last tried; 0 if the file could not be used."};
constinit const SeriesText build_info_series{"weir_build_info", "1; the labels name version and compiler.",
                                             "version, compiler"};

}  // namespace weir::metrics::series
