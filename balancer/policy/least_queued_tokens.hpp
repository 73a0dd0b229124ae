// Chooses the replica that will begin with this prompt first:
//
//   score = (prefill_left + uncached + (kappa - 1) * waste + decode_weight * decode_left) / (weight * speed)
//
// What a replica is believed to hold of the prompt is not computed. Waste is what it would compute although another
// candidate holds it; kappa is the price of such work, which those that come after have to wait for. The lowest score
// wins; ties go to whoever holds most of the prompt, then to the fewest in flight, then at random. The load of others
// does not belong to it: see docs/design.md.
#pragma once

#include <algorithm>
#include <tuple>

#include "balancer/policy/lowest.hpp"

namespace weir::balancer::policy {

class LeastQueuedTokens final : public Policy {
 public:
  explicit LeastQueuedTokens(double decode_weight, double kappa = 1) : decode_weight_(decode_weight), kappa_(kappa) {}

  /// `most_cached`: what the candidate that holds most of the prompt holds of it.
  double score(Tokens prompt, Tokens most_cached, const ReplicaView& r) const {
    const double queued = static_cast<double>(r.prefill_left) + static_cast<double>(r.uncached(prompt)) +
                          (kappa_ - 1) * static_cast<double>(most_cached - r.cached) +
                          decode_weight_ * static_cast<double>(r.decode_left);
    return queued / (r.weight * r.speed);
  }

  std::size_t choose(Tokens prompt, std::span<const ReplicaView> replicas, Random& random) override {
    const Tokens most_cached = std::ranges::max(replicas, {}, &ReplicaView::cached).cached;
    return lowest(replicas, random, [&](const ReplicaView& r) {
      return std::tuple(score(prompt, most_cached, r), most_cached - r.cached, r.in_flight);
    });
  }

 private:
  double decode_weight_, kappa_;
};

}  // namespace weir::balancer::policy
