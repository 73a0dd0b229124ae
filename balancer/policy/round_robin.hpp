// Takes one replica after the other, in proportion to their weights and as evenly as these allow (the
// smooth weighted round robin of nginx). Each turn a replica earns its weight; the richest is chosen and pays what all
// earned. With equal weights this is the plain cycle. A replica that may not take the request earns nothing meanwhile.
#pragma once

#include <vector>

#include "balancer/policy/policy.hpp"

namespace weir::balancer::policy {

class RoundRobin final : public Policy {
 public:
  std::size_t choose(const Job& /*job*/, std::span<const ReplicaView> replicas, Random&) override {
    double earned = 0;
    std::size_t richest = 0;
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      earned += replicas[i].weight;
      double& credit = credit_of(replicas[i].index);
      credit += replicas[i].weight;
      if (credit > credit_of(replicas[richest].index)) richest = i;
    }
    credit_of(replicas[richest].index) -= earned;
    return richest;
  }

 private:
  double& credit_of(ReplicaIndex index) {
    if (index >= credits_.size()) credits_.resize(index + 1);
    return credits_[index];
  }

  std::vector<double> credits_;
};

}  // namespace weir::balancer::policy
