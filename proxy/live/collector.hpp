// Takes the figures of the present once a second: from the shards of the metrics, the books of the pools, and the
// records of finished requests. Nothing is counted for it on the way of a request.
//
// The control thread uses it. take() costs O(pools + replicas x loops): some 130 loads for each replica and loop, and a
// lock of the pool for each replica. The bounds of histograms are held meanwhile, so that loops follow those of a
// reload a tick later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "metrics/record/request_record.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/live/key_figures.hpp"
#include "proxy/live/now.hpp"
#include "proxy/live/own_figures.hpp"
#include "proxy/live/pool_figures.hpp"
#include "proxy/live/replica_figures.hpp"
#include "proxy/live/shadow_figures.hpp"

namespace weir::proxy::live {

class Collector {
 public:
  Collector(const metrics::series::Exposition& exposition, std::size_t threads, Wall started, Moment began)
      : exposition_(exposition), own_(exposition, threads, started, began) {}

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
  void take_pool(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool, bool draws,
                 std::size_t seconds);
  void take_replicas(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool,
                     const balancer::PoolLoad& load, bool draws, std::size_t seconds);

  const metrics::series::Exposition& exposition_;
  std::uint64_t serial_ = 0;
  OwnFigures own_;
  ReplicaFigures replicas_;
  PoolFigures pools_;
  ShadowFigures shadows_;
  KeyFigures keys_;
};

}  // namespace weir::proxy::live
