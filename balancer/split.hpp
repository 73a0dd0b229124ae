// The split of a pool's requests between a candidate's replicas and all others, during a rollout.
//
// A request belongs to the candidate if its number, as a fraction of 2^64, is below the share. The number is that of
// its session, or else of its conversation, so that both stay on their side; a request without either has a number of
// its own. A share that grows moves requests to the candidate and none away from it. A request for state goes to the
// replica that has the state, on whichever side that is.
//
// A replica's weight could not be the share: the default policy sends the requests of an idle pool to the fastest.
//
// A Pool owns it and calls it under its mutex. No clock is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_set>

#include "balancer/health.hpp"
#include "balancer/token_ledger.hpp"
#include "balancer/tokens.hpp"
#include "metrics/wire/request/facts.hpp"

namespace weir::balancer {

/// The attempts that showed something of one side's replicas while the pool was split. Those whose client left, that
/// found no room, or whose request two replicas failed are none of them.
struct SideCounts {
  std::uint64_t ended = 0;
  /// Failures among them, by the replica's own fault. A conversation fails once while the share stays as it is, for it
  /// stays on its side, and may be what fails everywhere.
  std::uint64_t failed = 0;
  /// Conversations, or requests without one, whose content a replica refused; and whose stream had no first token in
  /// time, or stood still later. They count for the side that was drawn for them, whichever had the request, and once
  /// while the share stays as it is: a client may repeat one bad request without an end, and each time it goes to the
  /// same side.
  std::uint64_t refused = 0, overdue = 0;
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
  /// True if each side has a part of the requests.
  bool has_two_sides() const { return share && *share > 0 && *share < 1; }

  /// Begins, changes or ends the split.
  void set(std::optional<double> wanted) {
    if (wanted == share) return;
    if (!wanted) *this = Split();
    share = wanted;
    refused_.clear();
    overdue_.clear();
    failed_.clear();
    if (!has_two_sides()) waits_.clear();
  }

  /// Returns the number by which a request belongs to a side: its lot, or else its conversation.
  static std::uint64_t number_of(const metrics::wire::RequestFacts& facts, std::uint64_t lot) {
    return lot != 0 ? lot : facts.conversation;
  }
  /// Returns the side of a request. The pool is split.
  bool gives_candidate(const metrics::wire::RequestFacts& facts, std::uint64_t lot) const {
    return belongs(number_of(facts, lot), *share);
  }
  static bool belongs(std::uint64_t number, double share) {
    return share >= 1 || static_cast<double>(number) < share * 0x1p64;
  }

  /// Counts what an attempt showed, once it is known whose fault a failure was. `number`: the request's; 0: it has no
  /// part in the failure.
  void note(bool of_candidate, Sign sign, std::uint64_t number = 0) {
    SideCounts& side = of_candidate ? candidate : stable;
    switch (sign) {
      case Sign::answered:
      case Sign::empty:
      case Sign::client_error:
        ++side.ended;
        return;
      case Sign::failed:
      case Sign::refused:
      case Sign::connect_timed_out:
        if (number != 0 && failed_.size() < most_numbers && !failed_.insert(number).second) return;
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

  /// A replica refused the content of the request with this number.
  void note_refused(std::uint64_t number) { count(refused_, number, &SideCounts::refused); }

  /// A stream is sent to a replica, and waits for its first token.
  void begin_wait(TokenLedger::Ticket ticket, std::uint64_t number, Moment now) {
    if (has_two_sides()) waits_.emplace(ticket, Wait{number, now});
  }
  /// Its first token came, or its attempt ended.
  void end_wait(TokenLedger::Ticket ticket) { waits_.erase(ticket); }
  /// A stream with this number has stood still for long, between two tokens.
  void note_stalled(std::uint64_t number) { count(overdue_, number, &SideCounts::overdue); }
  /// Counts the streams that were sent before that moment and still wait, each once.
  void note_overdue(Moment sent_before) {
    while (!waits_.empty() && waits_.begin()->second.since < sent_before) {
      count(overdue_, waits_.begin()->second.number, &SideCounts::overdue);
      waits_.erase(waits_.begin());
    }
  }

 private:
  /// More numbers are not told apart, and not counted. Equal sides have shown by then that they are.
  static constexpr std::size_t most_numbers = 65'536;
  using Numbers = std::unordered_set<std::uint64_t>;
  struct Wait {
    std::uint64_t number;
    Moment since;
  };

  void count(Numbers& seen, std::uint64_t number, std::uint64_t SideCounts::* what) {
    if (!has_two_sides() || seen.size() >= most_numbers || !seen.insert(number).second) return;
    ++((belongs(number, *share) ? candidate : stable).*what);
  }

  Numbers refused_, overdue_, failed_;
  std::map<TokenLedger::Ticket, Wait> waits_;  ///< In the order in which they were sent.
};

}  // namespace weir::balancer
