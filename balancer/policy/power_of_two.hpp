// Draws two replicas at random and chooses the one with fewer requests in flight by weight: the standard
// definition (Mitzenmacher, "The power of two choices in randomized load balancing"). Failures of the last second count
// too.
#pragma once

#include "balancer/policy/policy.hpp"

namespace weir::balancer::policy {

class PowerOfTwo final : public Policy {
 public:
  std::size_t choose(const Job& /*job*/, std::span<const ReplicaView> replicas, Random& random) override {
    if (replicas.size() == 1) return 0;
    const std::size_t first = draw(random, replicas.size());
    std::size_t second = draw(random, replicas.size() - 1);
    if (second >= first) ++second;
    return replicas[second].requests_by_weight() < replicas[first].requests_by_weight() ? second : first;
  }
};

}  // namespace weir::balancer::policy
