// Chooses any replica, with a chance in proportion to its weight.
#pragma once

#include "balancer/policy/policy.hpp"

namespace weir::balancer::policy {

class RandomReplica final : public Policy {
 public:
  std::size_t choose(const Job& /*job*/, std::span<const ReplicaView> replicas, Random& random) override {
    double all = 0;
    for (const ReplicaView& r : replicas) all += r.weight;
    // 53 random bits make a number in [0, all).
    double left = static_cast<double>(random() >> 11) * 0x1p-53 * all;
    std::size_t i = 0;
    while (i + 1 < replicas.size() && left >= replicas[i].weight) left -= replicas[i++].weight;
    return i;
  }
};

}  // namespace weir::balancer::policy
