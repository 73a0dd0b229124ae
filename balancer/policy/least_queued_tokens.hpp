// Chooses the replica that will begin with this prompt first:
//
//   score = (prefill_left + uncached + waste + decode_weight * decode_left) / (weight * speed)
//
// Tokens that a replica is believed to hold need not be computed. Waste is the price of what it would compute although
// another candidate holds it (ReplicaView::waste). The lowest score wins; ties go to the fewest uncached tokens, then
// to the fewest in flight, then at random. The load of others does not belong to it: see docs/design.md.
#pragma once

#include <tuple>

#include "balancer/policy/lowest.hpp"

namespace weir::balancer::policy {

class LeastQueuedTokens final : public Policy {
 public:
  explicit LeastQueuedTokens(double decode_weight) : decode_weight_(decode_weight) {}

  double score(Tokens prompt, const ReplicaView& r) const {
    const double queued = static_cast<double>(r.prefill_left) + static_cast<double>(r.uncached(prompt)) + r.waste +
                          decode_weight_ * static_cast<double>(r.decode_left);
    return queued / (r.weight * r.speed);
  }

  std::size_t choose(Tokens prompt, std::span<const ReplicaView> replicas, Random& random) override {
    return lowest(replicas, random,
                  [&](const ReplicaView& r) { return std::tuple(score(prompt, r), r.uncached(prompt), r.in_flight); });
  }

 private:
  double decode_weight_;
};

}  // namespace weir::balancer::policy
