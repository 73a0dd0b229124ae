// The state that all parts of a pool share. Its PoolCore's mutex guards it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "balancer/finished_tokens.hpp"
#include "balancer/placement.hpp"
#include "balancer/prefix/index.hpp"
#include "balancer/replica_set.hpp"
#include "balancer/split.hpp"
#include "balancer/tokens.hpp"
#include "balancer/waiting_queue.hpp"

namespace weir::balancer {

struct PoolState {
  PoolLimits limits;
  Moment latest = Moment::min();  ///< The latest time that any call gave. Calls may bring theirs out of order.
  ReplicaSet replicas;
  WaitingQueue waiting;
  FinishedTokens finished;
  config::Policy policy = config::Policy::least_queued_tokens;
  double decode_weight = 0;
  bool prefix_aware = false;
  double kappa = 1;
  PrefixIndex prefixes;
  bool counts_cached = false;  ///< Prefix-aware, and the policy looks at it.
  Split split;
  std::uint32_t in_flight = 0;
  std::optional<WaitTicket> reserved_for;  ///< No replica takes anything else: the pool's own limit stands against it.

  /// Notes which replicas get no request, after the split or the replicas have changed.
  void close_candidates() {
    for (PoolReplica& replica : replicas.all()) replica.closed = split.closes_candidate() && replica.spec.candidate;
  }

  /// Lets time pass. Returns the latest time.
  Moment pass(Moment now) {
    latest = std::max(latest, now);
    finished.pass(latest, !waiting.empty() && !replicas.none_up());  // An outage is no slow queue.
    return latest;
  }
};

}  // namespace weir::balancer
