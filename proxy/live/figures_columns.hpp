// The columns of each kind of row. The first ones may be drawn: GET /api/live/window knows them by these names.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace weir::proxy::live::columns {

inline constexpr std::array<std::string_view, 4> of_weir{"cpu", "memory_bytes", "connections", "loop_delay_p99_s"};
enum OfWeir : std::size_t { weir_cpu, weir_memory, weir_connections, weir_delay, weir_lost, weir_limits };

inline constexpr std::array<std::string_view, 7> of_pools{
    "requests_per_s", "failed_per_s", "tokens_in_per_s", "tokens_out_per_s", "in_flight", "waiting", "ttft_p50_s"};
enum OfPools : std::size_t {
  pool_requests,
  pool_failed,
  pool_tokens_in,
  pool_tokens_out,
  pool_in_flight,
  pool_waiting,
  pool_ttft,
  pool_good,
  pool_bad,
  pool_outcomes,
};

inline constexpr std::array<std::string_view, 9> of_replicas{
    "requests_per_s", "failed_per_s", "tokens_out_per_s", "in_prefill", "in_decode",
    "queued_tokens",  "kv_usage",     "ttft_p50_s",       "tpot_p50_s"};
enum OfReplicas : std::size_t {
  replica_requests,
  replica_failed,
  replica_tokens_out,
  replica_in_prefill,
  replica_in_decode,
  replica_queued,
  replica_kv,
  replica_ttft,
  replica_tpot,
  replica_tokens_in,
  replica_empty,
  replica_retries,
  replica_cached,
  replica_cache_known,
  replica_busy,
  replica_streams,
  replica_coalesced,
  replica_count,
};

inline constexpr std::array<std::string_view, 3> of_shadows{"in_flight", "sent_per_s", "dropped_per_s"};
enum OfShadows : std::size_t { shadow_in_flight, shadow_sent, shadow_dropped, shadow_mirrored };

enum OfKeys : std::size_t {
  key_requests,
  key_failed,
  key_refused,
  key_tokens_in,
  key_tokens_out,
  key_waits,
  key_waited,
  key_count,
};

}  // namespace weir::proxy::live::columns
