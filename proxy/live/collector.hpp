// Takes the figures of the present once a second: from the shards of the metrics, the books of the pools, and the
// records of finished requests. Nothing is counted for it on the way of a request.
//
// The control thread uses it. take() costs O(pools + replicas x loops): some 130 loads for each replica and loop, and a
// lock of the pool for each replica. The bounds of histograms are held meanwhile, so that loops follow those of a
// reload a tick later.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/record/request_record.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/live/counts.hpp"
#include "proxy/live/instance_name.hpp"
#include "proxy/live/latencies.hpp"
#include "proxy/live/now.hpp"
#include "proxy/live/recent.hpp"

namespace weir::proxy::live {

class Collector {
 public:
  /// Observations of the last seconds fade to 1/e in so many seconds.
  static constexpr double recent_seconds = 10, recent_ttft_seconds = 15;
  /// The observations of one second count for so many at most.
  static constexpr double most_gaps = 20, most_ttfts = 2;
  /// Estimates fade to 1/e in so many requests.
  static constexpr double recent_estimates = 100;
  /// So many keys have a row, and so many have their requests counted at a time.
  static constexpr std::size_t most_keys = 50, most_counted_keys = 1000;

  Collector(const metrics::series::Exposition& exposition, std::size_t threads, Wall started, Moment began)
      : exposition_(exposition), threads_(threads), started_(started), began_(began) {}

  /// Counts a finished request, of a client or a shadow.
  void finished(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures, Moment now);

  /// Returns the figures of the second that ends now. `seconds`: so many have passed since the last call. `draws`: the
  /// medians of the last ten seconds are wanted, which the window keeps.
  Now take(const fleet::Snapshot& snapshot, const Surroundings& around, const std::string& instance, bool draws,
           std::size_t seconds, Moment now, Wall time);
  /// Adds what nobody but a reader needs: quantiles, all keys with requests, open descriptors. It costs O(requests of
  /// the last minute + keys + descriptors).
  void complete(Now& now, const fleet::Snapshot& snapshot);

 private:
  struct Requests {
    Minute all, failed, refused;
    void end_second(std::size_t seconds);
  };
  struct OfReplica {
    std::uint64_t id = 0;  ///< ReplicaState::id: another replica of that name begins anew.
    Requests requests;
    Minute retries, tokens_in, tokens_out, cached, cache_known, busy, streams, coalesced;
    Growth retried, prompt, output, cached_prompt, known_prompt, busy_seconds, prefill_seconds, decode_seconds,
        suspects;
    Latencies latencies;
    Recent ttft, gap, estimates;
    Moment state_since{};
    Wall state_since_wall{};  ///< The same moment. Taken once, since the two clocks differ from second to second.
    bool seen = false;
  };
  struct OfPool {
    Requests requests;
    std::array<Minute, metrics::outcome_names.size()> outcomes;
    Minute tokens_in, tokens_out, good, bad;
    /// The counts of the objective by series: what one brings that joins the pool was counted before.
    std::map<const metrics::series::ReplicaSeries*, std::pair<Growth, Growth>> slo_counts;
    std::string slo;
    Latencies latencies;
    bool seen = false;
  };
  struct OfShadow {
    std::array<Minute, metrics::series::mirrored_names.size()> mirrored;
    std::array<Growth, metrics::series::mirrored_names.size()> grown;
    const metrics::series::ReplicaSeries* counted_by = nullptr;
    Moment began{};
    Wall began_wall{};
    bool seen = false;
  };
  struct OfKey {
    Requests requests;
    Minute tokens_in, tokens_out;
    bool is_quiet() const { return requests.all.empty(); }
  };
  struct OfWaits {
    Growth waits, waited;
    Minute ended, seconds;
    bool seen = false;
  };

  void take_weir(Now& now, const fleet::Snapshot& snapshot, const std::string& instance, std::size_t seconds);
  void take_pool(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool, bool draws,
                 std::size_t seconds);
  void take_replica(Now& now, const fleet::PoolRuntime& pool, const fleet::Replica& replica,
                    const balancer::ReplicaLoad& load, std::optional<Moment> leaves_since, bool counts, bool draws,
                    std::size_t seconds);
  /// Returns the key of a replica's row.
  std::string row_of(const fleet::Replica& replica, bool leaves) const;
  void take_slo(PoolNow& row, OfPool& memory, const fleet::PoolRuntime& pool, const fleet::Snapshot& snapshot,
                std::size_t seconds);
  void take_series(ReplicaNow& row, OfReplica& memory, const fleet::Replica& replica, std::size_t seconds);
  void take_shadow(Now& now, const fleet::ShadowRuntime& shadow, std::size_t seconds);
  void take_waits(const keys::ClientKeys& keys, std::size_t seconds);
  void list_keys(Now& now, const keys::ClientKeys& keys) const;

  const metrics::series::Exposition& exposition_;
  const std::size_t threads_;
  const Wall started_;
  const Moment began_;
  std::uint64_t serial_ = 0;
  std::map<std::string, OfReplica, std::less<>> replicas_;  ///< By row.
  std::map<std::string, OfPool, std::less<>> pools_;
  std::map<std::string, OfShadow, std::less<>> shadows_;
  std::map<std::string, OfKey, std::less<>> keys_;
  std::map<std::string, OfWaits, std::less<>> waits_;  ///< By key, for keys of which some wait or waited.
  std::array<std::pair<Growth, Minute>, metrics::series::limit_names.size()> limits_;
  Recent loop_delay_, overhead_;
  Growth cpu_;
  Moment cpu_at_{};
  std::optional<double> descriptors_;
  Moment descriptors_at_{};
  std::optional<Moment> bypass_since_;
  InstanceName instance_name_;
  std::vector<std::uint64_t> counts_;  ///< Kept for its memory.
};

/// Sets each replica's figures by those of its peers: replicas of its pool that are up and of the same `gpu`, `weight`
/// and `config`. To be compared, each needs so many observations in the last seconds.
inline constexpr double least_gaps = 20, least_ttfts = 15;
/// The gaps of a replica are known while at most this share of its streams is coalesced.
inline constexpr double most_coalesced = 0.3;
void compare_with_peers(std::vector<ReplicaNow>& replicas);

}  // namespace weir::proxy::live
