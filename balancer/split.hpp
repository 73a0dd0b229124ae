// The split of a pool's requests between the replicas of a candidate and all others, while a rollout holds the pool.
//
// A request belongs to the candidate if its number, as a fraction of 2^64, is below the share. The number is that of
// its conversation, so that a conversation stays on its side; a request without one has a number of its own. A share
// that grows moves requests to the candidate and none away from it.
//
// A Pool owns it and calls it under its mutex. No clock is read.
#pragma once

#include <cstdint>
#include <optional>

#include "balancer/lease.hpp"
#include "balancer/waiting_queue.hpp"

namespace weir::balancer {

/// The leases that ended on one side while the pool was split: answers, 4xx and failures. A client that left, or a
/// request that weir did not send, says nothing of a replica.
struct SideCounts {
  std::uint64_t ended = 0;
  std::uint64_t failed =
      0;  ///< Of them, by EndCause::replica_failed. A request that is retried counts in each attempt.
};

struct SplitFigures {
  std::optional<double> share;  ///< The candidate's, 0 to 1. Nothing: the pool is not split.
  SideCounts stable, candidate;
  std::uint64_t crossed = 0;  ///< Requests that went to the other side, because their own could not take them.
};

struct Split : SplitFigures {
  bool is_on() const { return share.has_value(); }
  /// True if the candidate's replicas get nothing.
  bool closes_candidate() const { return share && *share <= 0; }

  /// Returns the side of a request. The pool is split.
  bool gives_candidate(const WaitingRequest& request) const {
    const std::uint64_t conversation = request.facts->conversation;
    return belongs(conversation != 0 ? conversation : request.lot, *share);
  }
  static bool belongs(std::uint64_t number, double share) {
    return share >= 1 || static_cast<double>(number) < share * 0x1p64;
  }

  void note_end(bool of_candidate, EndCause cause) {
    if (cause == EndCause::client_left || cause == EndCause::unsent) return;
    SideCounts& side = of_candidate ? candidate : stable;
    ++side.ended;
    if (cause == EndCause::replica_failed) ++side.failed;
  }
};

}  // namespace weir::balancer
