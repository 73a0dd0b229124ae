// A policy chooses which of the replicas that may take a request gets it. Each is one small class; the pool owns one
// and calls it under its mutex. A new policy is a header beside least_queued_tokens.hpp, a line in make() and a word in
// the settings.
#pragma once

#include <cstddef>
#include <memory>
#include <random>
#include <span>

#include "balancer/replica_view.hpp"
#include "config/settings.hpp"

namespace weir::balancer::policy {

using Random = std::mt19937_64;

/// Returns a number below `n` (> 0). A seed gives the same numbers with any standard library; the bias is below 2^-32.
inline std::size_t draw(Random& random, std::size_t n) { return static_cast<std::size_t>(random() % n); }

/// A request that is to be placed.
struct Job {
  Tokens prompt = 0;
  Tokens output = 0;       ///< As it is expected.
  double prompt_load = 0;  ///< The share of their time that the pool's replicas spend on prompts.
};

class Policy {
 public:
  virtual ~Policy() = default;
  /// Returns a position in `replicas`, which is never empty and in the order of the pool.
  virtual std::size_t choose(const Job& job, std::span<const ReplicaView> replicas, Random& random) = 0;
};

std::unique_ptr<Policy> make(config::Policy policy);

}  // namespace weir::balancer::policy
