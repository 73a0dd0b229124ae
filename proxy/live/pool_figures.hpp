// The figures of pools, from their books, the rows of their replicas and the records of finished requests. The control
// thread uses it.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "metrics/record/request_record.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/live/counts.hpp"
#include "proxy/live/latencies.hpp"
#include "proxy/live/memories.hpp"
#include "proxy/live/now.hpp"

namespace weir::proxy::live {

class PoolFigures {
 public:
  /// Counts a finished request of a client.
  void finished(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures, Moment now);
  /// Adds the row of the second that ends now, after `seconds`; `replicas` are the rows of the pool's. `draws`: the
  /// median of the last ten seconds is wanted.
  void take(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool,
            const balancer::PoolLoad& load, std::span<const ReplicaNow> replicas, bool draws, std::size_t seconds);
  /// Adds quantiles. Costs O(requests of the last minute).
  void complete(Now& now) const;
  /// To be called when all rows have been taken, with the same `seconds`.
  void end_second(std::size_t seconds) { end_second_of_unseen(memories_, seconds); }

 private:
  struct OfPool {
    RequestCounts requests;
    std::array<Minute, metrics::outcome_names.size()> outcomes;
    Minute good, bad;
    /// The counts of the objective by series: what one brings that joins the pool was counted before.
    std::map<const metrics::series::ReplicaSeries*, std::pair<Growth, Growth>> slo_counts;
    std::string slo;
    Latencies latencies;
    bool seen = false;

    bool rest(std::size_t seconds);
  };

  static void take_slo(PoolNow& row, OfPool& memory, const fleet::PoolRuntime& pool, const fleet::Snapshot& snapshot,
                       std::size_t seconds);

  std::map<std::string, OfPool, std::less<>> memories_;
};

}  // namespace weir::proxy::live
