// A policy chooses which of the replicas that may take a request gets it. Each is one small class; the pool owns one
// and calls it under its mutex. A new policy is a header beside least_queued_tokens.hpp, a line in make() and a word in
// the settings.
#pragma once

#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <vector>

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

// lowest() finds the position of the lowest value. Ties are decided at random, each with the same chance.

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

// Chooses the fewest requests in flight by weight, and decides ties at random. Failures of the last second count as in
// flight.

class LeastRequests final : public Policy {
 public:
  std::size_t choose(const Job& /*job*/, std::span<const ReplicaView> replicas, Random& random) override {
    return lowest(replicas, random, [](const ReplicaView& r) { return r.requests_by_weight(); });
  }
};

// Draws two replicas at random and chooses the one with fewer requests in flight by weight: the standard
// definition (Mitzenmacher, "The power of two choices in randomized load balancing"). Failures of the last second count
// too.

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

// Chooses any replica, with a chance in proportion to its weight.

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

// Takes one replica after the other, in proportion to their weights and as evenly as these allow (the
// smooth weighted round robin of nginx). Each turn a replica earns its weight; the richest is chosen and pays what all
// earned. With equal weights this is the plain cycle. A replica that may not take the request earns nothing meanwhile.

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
