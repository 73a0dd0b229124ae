// The policies: which of the replicas that may take a request gets it.
//
// Each is one small class; the pool owns one and calls it under its mutex. A new policy is a class here, a line in
// make() and a word in the settings.
#pragma once

#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <tuple>
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

// Chooses the replica where a request costs its client and the others the least time.
//
//   score = (first token + eviction + waste + 0.01 * (own answer + what others wait longer)) * highest weight / weight
//
// The first token waits for the request's model, too, where the replica has put that away; and the eviction is what
// others lose whose model goes for it (models.hpp).
//
// All parts are seconds (forecast()), by what the replica has taught of its times (replica_time.hpp). A second before
// the first token counts as much as a hundred seconds of the tokens after it. The first token is what people wait for;
// and a prompt keeps waiting whoever comes next to that replica, while a sequence more hardly slows a batch. With equal
// weights the sum of all times is 1 % lower, and many a p99 of the time to first token higher (docs/benchmarks.md).
//
// A replica that has come, or come back, within a minute is taken to be as busy as its peers: else it would get all
// requests at once, though its caches are cold and nobody knows how it does.
//
// Scores within 2 % and 5 ms of the lowest are equal: replicas of one kind differ by chance, and nobody feels a few
// milliseconds, which would leave a replica idle. Ties go to the fewest in flight, then to the fewest tokens to compute
// that nobody will reuse, then at random.
//
// The weight of 0.01 is no setting, because a second is the same on every engine. The load of others, as engines' pages
// tell it, is no part of the score: the figures are seconds old, and a prompt waits for a tenth of a second. Counted as
// prompts, that load makes the p99 of the time to first token worse (tests/bench/results/two_weirs.txt).

/// The course of a request at a replica, as it is expected. Times are in seconds.
struct Forecast {
  double first_token = 0;    ///< From the choice.
  double output_token = 0;   ///< From each token of its answer to the next.
  double decode = 0;         ///< From the first token to the last.
  double others = 0;         ///< What the answers under way there will take longer, together.
  double prompt_tokens = 0;  ///< So many are to be computed there until the first token.
  bool for_slot = false;     ///< The request waits for a place in the engine's batch.
};
Forecast forecast(const Job& job, const ReplicaView& replica);

class LeastQueuedTokens final : public Policy {
 public:
  /// Returns the score of a replica, in seconds of one with `weight`.
  static double score(const Job& job, const ReplicaView& replica, double weight);

  std::size_t choose(const Job& job, std::span<const ReplicaView> replicas, Random& random) override;

 private:
  std::vector<double> scores_;       ///< Both are kept for their memory.
  std::vector<std::uint32_t> busy_;  ///< Requests in flight, and failures of the last second.
};

}  // namespace weir::balancer::policy
