// lowest() finds the position of the lowest value. Ties are decided at random, each with the same chance.
#pragma once

#include <cstddef>
#include <span>

#include "balancer/policy/policy.hpp"

namespace weir::balancer::policy {

/// `value(replica)` may be of any ordered type; equal values are tied.
template <class Value>
std::size_t lowest(std::span<const ReplicaView> replicas, Random& random, Value value) {
  std::size_t best = 0, tied = 1;
  auto best_value = value(replicas[0]);
  for (std::size_t i = 1; i < replicas.size(); ++i) {
    auto candidate = value(replicas[i]);
    if (candidate < best_value) {
      best = i;
      best_value = candidate;
      tied = 1;
    } else if (!(best_value < candidate) && draw(random, ++tied) == 0) {
      best = i;
    }
  }
  return best;
}

}  // namespace weir::balancer::policy
