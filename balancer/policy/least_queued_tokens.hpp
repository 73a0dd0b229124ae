// Chooses the replica that will begin with this prompt first:
//
//   score = (prefill_left + prompt + decode_weight * decode_left) / (weight * speed)
//
// The lowest score wins; ties go to the fewest in flight, then at random. The prefix of this prompt that a replica
// holds belongs to it, too, once something knows it. The load of others does not: see docs/design.md.
#pragma once

#include <utility>

#include "balancer/policy/lowest.hpp"

namespace weir::balancer::policy {

class LeastQueuedTokens final : public Policy {
 public:
  explicit LeastQueuedTokens(double decode_weight) : decode_weight_(decode_weight) {}

  double score(Tokens prompt, const ReplicaView& r) const {
    const double queued = static_cast<double>(r.prefill_left) + static_cast<double>(prompt) +
                          decode_weight_ * static_cast<double>(r.decode_left);
    return queued / (r.weight * r.speed);
  }

  std::size_t choose(Tokens prompt, std::span<const ReplicaView> replicas, Random& random) override {
    return lowest(replicas, random, [&](const ReplicaView& r) { return std::pair(score(prompt, r), r.in_flight); });
  }

 private:
  double decode_weight_;
};

}  // namespace weir::balancer::policy
