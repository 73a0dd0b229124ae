// The speeds of a pool's replicas relative to each other, by the prefill rates that they have taught; see
// relative_speed(). A Pool owns it and calls it under its mutex.
#pragma once

#include <vector>

#include "balancer/pool_state.hpp"

namespace weir::balancer {

class Speeds {
 public:
  explicit Speeds(PoolState& pool) : pool_(pool) {}

  /// Takes over what replicas have taught since.
  void update();
  /// Forgets the speed of slow replicas that few requests have tested for a minute. A replica that hung for a while, or
  /// whose first answers were slow, looks slow. While the others have time to spare, it gets hardly a request that
  /// could prove otherwise.
  void forget_untested();

 private:
  PoolState& pool_;
  std::vector<double> rates_;  ///< Kept for its memory.
};

}  // namespace weir::balancer
