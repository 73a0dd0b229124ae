// Chooses the fewest requests in flight by weight, and decides ties at random. Failures of the last second count as in
// flight.
#pragma once

#include "balancer/policy/lowest.hpp"

namespace weir::balancer::policy {

class LeastRequests final : public Policy {
 public:
  std::size_t choose(const Job& /*job*/, std::span<const ReplicaView> replicas, Random& random) override {
    return lowest(replicas, random, [](const ReplicaView& r) { return r.requests_by_weight(); });
  }
};

}  // namespace weir::balancer::policy
