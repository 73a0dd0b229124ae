// The figures of replicas, from the shards of their series, the books of their pool, the engines' own pages and the
// records of finished requests. The control thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "metrics/record/request_record.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/live/counts.hpp"
#include "proxy/live/latencies.hpp"
#include "proxy/live/memories.hpp"
#include "proxy/live/now.hpp"
#include "proxy/live/recent.hpp"

namespace weir::proxy::live {

class ReplicaFigures {
 public:
  /// The observations of one second count for so many at most.
  static constexpr double most_gaps = 20, most_ttfts = 2;
  /// Estimates fade to 1/e in so many requests.
  static constexpr double recent_estimates = 100;

  /// A replica in its pool.
  struct Place {
    const fleet::PoolRuntime& pool;
    const fleet::Replica& replica;
    const balancer::ReplicaLoad& load;
    std::optional<Moment> leaves_since{};
    bool counts = true;  ///< Its series counts in this row.
  };

  /// Counts a finished request that was sent to a replica.
  void finished(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures, Moment now);
  /// Adds the row of the second that ends now, after `seconds`. `draws`: the medians of the last ten seconds are
  /// wanted.
  void take(Now& now, const Place& place, bool draws, std::size_t seconds);
  /// Adds quantiles. Costs O(requests of the last minute).
  void complete(Now& now) const;
  /// To be called when all rows have been taken.
  void end_second() { forget_unseen(memories_); }

 private:
  struct OfReplica {
    std::uint64_t id = 0;  ///< SharedReplica::id: another replica of that name begins anew.
    RequestCounts requests;
    Minute retries, tokens_in, tokens_out, cached, cache_known, busy, streams, coalesced;
    Growth retried, prompt, output, cached_prompt, known_prompt, busy_seconds, prefill_seconds, decode_seconds,
        suspects;
    Latencies latencies;
    Recent ttft, gap, estimates, predictions;
    Moment state_since{};
    Wall state_since_wall{};
    bool seen = false;
  };

  /// Returns the key of a replica's row.
  std::string row_of(const fleet::Replica& replica, bool leaves) const;
  OfReplica& memory_of(const std::string& row, const fleet::Replica& replica);
  void take_load(ReplicaNow& row, OfReplica& memory, const balancer::ReplicaLoad& load, std::size_t seconds);
  void take_counters(OfReplica& memory, const fleet::Replica& replica, std::size_t seconds);
  void take_histograms(OfReplica& memory, const fleet::Replica& replica, std::size_t seconds);
  static void set_series(ReplicaNow& row, const OfReplica& memory);

  std::map<std::string, OfReplica, std::less<>> memories_;  ///< By row.
  std::vector<std::uint64_t> counts_;                       ///< Kept for its memory.
};

}  // namespace weir::proxy::live
