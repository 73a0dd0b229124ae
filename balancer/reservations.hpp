// Replicas that are kept free for requests that have had their turn and fitted nowhere while others went. A Pool owns
// it and calls it under its mutex.
#pragma once

#include <chrono>

#include "balancer/candidates.hpp"
#include "balancer/pool_state.hpp"

namespace weir::balancer {

class Reservations {
 public:
  /// A request that has had its turn and fitted nowhere while others went waits so long; then a replica is reserved.
  static constexpr std::chrono::seconds reserve_after{5};

  Reservations(PoolState& pool, Candidates& candidates) : pool_(pool), candidates_(candidates) {}

  /// Reserves a replica for each request that has been passed over too long: the one that has the least to do. At most
  /// half of those that take requests are reserved, so that the others go on; a lone one is, too.
  void reserve();
  /// Ends the reservations whose request waits no more, or would not get the replica. Returns true if any ended.
  bool drop();

 private:
  PoolState& pool_;
  Candidates& candidates_;
};

}  // namespace weir::balancer
