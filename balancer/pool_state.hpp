// The state that all parts of a pool share. Its PoolCore's mutex guards it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "balancer/finished_tokens.hpp"
#include "balancer/placement.hpp"
#include "balancer/prefix/index.hpp"
#include "balancer/replica_set.hpp"
#include "balancer/split.hpp"
#include "balancer/tokens.hpp"
#include "balancer/waiting_queue.hpp"

namespace weir::balancer {

/// Tells how many tokens of a request's prompt a replica really holds, in place of what the index believes.
using PrefixOracle = std::function<Tokens(const metrics::wire::RequestFacts&, ReplicaIndex)>;

struct PoolState {
  PoolLimits limits;
  Moment latest = Moment::min();  ///< The latest time that any call gave. Calls may bring theirs out of order.
  ReplicaSet replicas;
  WaitingQueue waiting;
  FinishedTokens finished;
  config::Policy policy = config::Policy::least_queued_tokens;
  double decode_weight = 0;
  bool prefix_aware = false;
  /// The price of computing a token that another candidate holds, where nobody else will need it there. Such work keeps
  /// those waiting that come after, and takes the place of something else in the replica's cache. Simulations set
  /// others.
  double kappa = usual_kappa;
  static constexpr double usual_kappa = 4;
  PrefixIndex prefixes;
  bool counts_cached = false;  ///< Prefix-aware, and the policy looks at it.
  PrefixOracle oracle;         ///< Set by simulations alone.
  Split split;
  std::uint32_t in_flight = 0;
  std::optional<WaitTicket> reserved_for;  ///< No replica takes anything else: the pool's own limit stands against it.

  /// Notes which replicas get no request, after the split or the replicas have changed.
  void close_candidates() {
    for (PoolReplica& replica : replicas.all()) replica.closed = split.closes_candidate() && replica.spec.candidate;
  }

  /// Looks what the replicas hold of a request's prompt. Returns false if nothing is known of it.
  bool look_up(const WaitingRequest& request) {
    if (!counts_cached || (!request.prefix && !oracle)) return false;
    if (request.prefix) prefixes.look(*request.prefix, request.prompt);
    return true;
  }
  /// Returns how much of the prompt that was looked up last the replica need not compute. Below the prompt.
  Tokens cached(const WaitingRequest& request, ReplicaIndex replica) const {
    if (!oracle) return prefixes.cached(replica, request.prompt);
    return std::min(oracle(*request.facts, replica), request.prompt > 0 ? request.prompt - 1 : 0);
  }

  /// Returns what it costs more than itself to compute a token that this candidate holds, which holds `held` tokens of
  /// the prompt that was looked up last, most of all: -1 where it costs nothing. A beginning that many prompts have is
  /// computed once for all those that follow, so its price falls below 1 with its uses. Otherwise the replica that had
  /// it first would get all of them, however many answers it is writing.
  double price_of_waste(ReplicaIndex best, Tokens held) const {
    constexpr double uses_of_quarter = 32;
    const double share = 1 + prefixes.uses(best) / uses_of_quarter;
    const double price = kappa / (share * share);
    return price * static_cast<double>(held) < static_cast<double>(PrefixIndex::least_cached) ? -1 : price - 1;
  }

  /// Lets time pass. Returns the latest time.
  Moment pass(Moment now) {
    latest = std::max(latest, now);
    finished.pass(latest, !waiting.empty() && !replicas.none_up());  // An outage is no slow queue.
    return latest;
  }
};

}  // namespace weir::balancer
