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

#include "balancer/health.hpp"
#include "balancer/waiting_queue.hpp"

namespace weir::balancer {

/// The attempts that showed something of one side's replicas while the pool was split. Those whose client left, that
/// found no room, or whose request fails everywhere are none of them.
struct SideCounts {
  std::uint64_t ended = 0;
  std::uint64_t failed = 0;  ///< Failures among them, by the replica's own fault.
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

  /// Counts what an attempt showed, once it is known whose fault a failure was.
  void note(bool of_candidate, Sign sign) {
    SideCounts& side = of_candidate ? candidate : stable;
    switch (sign) {
      case Sign::answered:
      case Sign::client_error:
        ++side.ended;
        return;
      case Sign::failed:
      case Sign::refused:
      case Sign::connect_timed_out:
        ++side.ended;
        ++side.failed;
        return;
      case Sign::outdone:  // Counted before, as a client_error.
        ++side.failed;
        return;
      default:
        return;
    }
  }
};

}  // namespace weir::balancer
