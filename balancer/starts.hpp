// The ends of replicas' starts. A starting replica is up once its allowance reaches the median prefill_left of its
// peers; without peers, its own prefill_left and the queue. A Pool owns it and calls it under its mutex.
#pragma once

#include <span>
#include <vector>

#include "balancer/pool_state.hpp"

namespace weir::balancer {

/// Returns the middle value, or the mean of the two middle ones; 0 if there are none. Reorders `values`.
double median_of(std::span<double> values);

class Starts {
 public:
  explicit Starts(PoolState& pool) : pool_(pool) {}

  /// Ends the starts of replicas that have finished enough.
  void end_finished();

 private:
  PoolState& pool_;
  std::vector<double> held_;  ///< Kept for its memory.
};

}  // namespace weir::balancer
