// Takes the figures of the present once a second: from the shards of the metrics, the books of the pools, the engines'
// own pages and the records of finished requests. Nothing is counted for it on the way of a request.
//
// The control thread uses it. take() costs O(pools + replicas x loops): some 130 loads for each replica and loop, and a
// lock of the pool for each replica. The bounds of histograms are held meanwhile, so that loops follow those of a
// reload a tick later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"
#include "metrics/record/request_record.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/live/now.hpp"
#include "proxy/live/seconds.hpp"

namespace weir::proxy::live {

enum class Rows : std::uint8_t { weir, pools, replicas, shadows };
inline constexpr std::array<std::string_view, 4> rows_names{"weir", "pools", "replicas", "shadows"};

class Figures {
 public:
  /// So many rows keep 15 minutes: the whole stays below 16 MiB. A row that has gone gives its place to a new one.
  static constexpr std::size_t most_drawn = 400;
  /// So many keys have a row, and so many have their requests counted at a time.
  static constexpr std::size_t most_keys = 50, most_counted_keys = 1000;
  /// The observations of one second count for so many at most.
  static constexpr double most_gaps = 20, most_ttfts = 2;
  /// Estimates fade to 1/e in so many requests.
  static constexpr double recent_estimates = 100;

  Figures(const metrics::series::Exposition& exposition, std::size_t threads, Wall started, Moment began)
      : exposition_(exposition), threads_(threads), started_(started), began_(began) {}

  /// Counts a finished request, of a client or a shadow.
  void finished(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures, Moment now);

  /// Returns the figures of the second that ends now; so many have passed since the last call. 0 looks again within
  /// that second: states and books are those of now, and means of a second stay what they are.
  Now take(const fleet::Snapshot& snapshot, const Surroundings& around, const std::string& instance, std::size_t passed,
           Moment now, Wall time);
  /// Adds what nobody but a reader needs: quantiles, peaks, all keys with requests, open descriptors. It costs
  /// O(requests of the last minute + 900 x pools + keys + descriptors).
  void complete(Now& now, const fleet::Snapshot& snapshot);

  /// Returns the names of the drawn columns of such rows, in their order.
  static std::span<const std::string_view> drawn(Rows rows);
  static std::optional<std::size_t> number_of(Rows rows, std::string_view figure);
  /// Returns the names of the rows that are drawn. weir's own row is "".
  std::vector<std::string> names(Rows rows) const;
  /// Returns a row that is drawn; null if there is none of this name.
  const Seconds* row(Rows rows, std::string_view name) const;

 private:
  /// A moment at which something began, and the same as wall time: once, since the two clocks differ from second to
  /// second.
  struct Begin {
    Moment at{};
    Wall wall{};
    Wall note(Moment begin, const Now& now);
  };
  struct OfReplica {
    OfReplica();
    Seconds seconds;
    std::uint64_t id = 0;  ///< ReplicaState::id: another replica of that name begins anew.
    bool leaves = false;
    Latencies latencies;
    Recent ttft, gap, estimates, predictions;
    Begin state;
  };
  struct OfPool {
    OfPool();
    Seconds seconds;
    std::optional<config::Slo> slo;  ///< The pool's first one.
    Latencies latencies;
  };
  struct OfShadow {
    OfShadow();
    Seconds seconds;
    const metrics::series::ReplicaSeries* counted_by = nullptr;
    Begin began;
  };
  struct OfKey {
    OfKey();
    Seconds seconds;
  };
  template <class Row>
  using Named = std::map<std::string, Row, std::less<>>;
  /// A replica in its pool.
  struct Place {
    const fleet::PoolRuntime& pool;
    const fleet::Replica& replica;
    const balancer::ReplicaLoad& load;
    std::optional<Moment> leaves_since{};
    bool counts = true;  ///< Its series counts in this row: replicas of one name share a series.
  };

  template <class Look>
  void each_row(const Look& look);
  void give_places();

  void take_weir(Now& now, const fleet::Snapshot& snapshot, const std::string& instance, std::size_t passed);
  void take_delays(WeirNow& weir, const fleet::Snapshot& snapshot, std::size_t passed);
  void take_pool(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool, std::size_t passed);
  void take_pool_row(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool,
                     const balancer::PoolLoad& load, std::span<const ReplicaNow> replicas, std::size_t passed);
  void take_shadow(Now& now, const fleet::ShadowRuntime& shadow);
  void take_keys(Now& now, const keys::ClientKeys* keys);
  void list_keys(Now& now, const keys::ClientKeys& keys) const;
  std::vector<KeyNow> rows_of(const keys::ClientKeys& keys) const;

  // figures_of_replicas.cpp
  void finished_on_replica(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures,
                           Moment now);
  void take_replicas(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool,
                     const balancer::PoolLoad& load, std::size_t passed);
  void take_replica(Now& now, const Place& place, std::size_t passed);
  std::string row_of(const fleet::Replica& replica, bool leaves) const;
  void take_histograms(OfReplica& memory, const fleet::Replica& replica, std::size_t passed);

  const metrics::series::Exposition& exposition_;
  const std::size_t threads_;
  const Wall started_;
  const Moment began_;
  std::uint64_t serial_ = 0;
  Seconds weir_ = weirs_seconds();
  static Seconds weirs_seconds();
  Named<OfReplica> replicas_;
  Named<OfPool> pools_;
  Named<OfShadow> shadows_;
  Named<OfKey> keys_;

  Recent loop_delay_, overhead_;
  std::optional<double> cpu_before_, descriptors_;
  Moment cpu_at_{}, descriptors_at_{};
  std::optional<Moment> bypass_since_;
  std::vector<std::uint64_t> counts_;  ///< Kept for its memory.
};

}  // namespace weir::proxy::live

// The columns of each kind of row. The first ones may be drawn: GET /api/live/window knows them by these names.

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

inline constexpr std::array<std::string_view, 9> of_replicas{"requests_per_s", "failed_per_s", "tokens_out_per_s",
                                                             "in_prefill",     "in_decode",    "queued_tokens",
                                                             "kv_usage",       "ttft_p50_s",   "tpot_p50_s"};
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

// The kernel's figures of this process, for /api/live.

namespace weir::proxy::live {

/// Returns the CPU time of all threads since the start, in seconds.
double cpu_seconds();
/// Returns resident memory. It costs the reading of one small file.
std::optional<double> memory_bytes();
/// Returns how many descriptors are open. It costs a walk through them.
std::optional<double> open_descriptors();
std::optional<double> descriptors_limit();

}  // namespace weir::proxy::live
