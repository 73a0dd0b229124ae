// Ties of requests to replicas: homes of stored state, sessions, ranks; a split's shares.
//
// Homes remember at which replica the state lies that a request names: a stored response, a file, a batch. Only ids
// that a replica handed out are noted, so no client can fill the memory with ids that it makes up.
//
// All pools share one, which outlives reloads, in plain memory. An id that was not used for `lasting` is forgotten;
// when the memory is full, the id that was used least recently goes. A call costs O(1) under one mutex, and reads no
// clock. Any thread may call it.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "balancer/health.hpp"
#include "balancer/token_ledger.hpp"
#include "balancer/tokens.hpp"
#include "metrics/moment.hpp"
#include "metrics/wire/request/facts.hpp"

namespace weir::balancer {

struct Home {
  std::uint64_t replica = 0;  ///< PoolReplica::identity.
  std::uint64_t number = 0;   ///< By this a split drew the side of the request that made the state: see Split.
  bool operator==(const Home&) const = default;
};

class Homes {
 public:
  static constexpr std::size_t most = 65'536;
  static constexpr std::chrono::hours lasting{24};

  /// `id` is the hash of an id (metrics/vocabulary.hpp).
  void note(std::uint64_t id, const Home& home, metrics::Moment now);
  /// Counts as a use of the id.
  std::optional<Home> find(std::uint64_t id, metrics::Moment now);
  std::size_t size() const;

 private:
  struct Noted {
    std::uint64_t id;
    Home home;
    metrics::Moment used;
  };
  using Order = std::list<Noted>;

  void use(Order::iterator noted, metrics::Moment now);
  void drop_last();

  mutable std::mutex mutex_;
  Order order_;  ///< The id that was used last is in front.
  std::unordered_map<std::uint64_t, Order::iterator> by_id_;
};

/// The memory for the ids that one replica hands out in one answer. Blank: none are noted.
struct HandedOut {
  Homes* homes = nullptr;
  Home home{};
};

/// Ties of a request to replicas. 0: none.
struct Ties {
  std::uint64_t home = 0;     ///< This replica has the state that the request names. The request waits for it.
  std::uint64_t pin = 0;      ///< The request names state by an id that its client made up: one replica gets all such.
  std::uint64_t session = 0;  ///< Requests of a session go to one replica, as long as its load is near the others'.
  /// Some replica has the state, and nobody knows which: the request never goes back to one that had it.
  bool seeks = false;
};

// Rendezvous hashing (Thaler and Ravishankar 1998) with weights (Schindelhauer and Schomaker 2005): each name ranks the
// replicas in an order of its own. A replica that comes or goes moves only the names that have it first. Header only;
// includes no other file of weir.

/// Returns the rank of a replica for a name, above 0; the highest is first. Of many names a replica is first for a
/// share that is proportional to its weight. Both numbers are hashes.
inline double rendezvous(std::uint64_t name, std::uint64_t replica, double weight) {
  std::uint64_t mixed = name ^ (replica + 0x9e3779b97f4a7c15 + (name << 6U) + (name >> 2U));
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9;  // SplitMix64's finish.
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111eb;
  mixed ^= mixed >> 31U;
  const double fraction = (static_cast<double>(mixed >> 11U) + 0.5) * 0x1p-53;  // Neither 0 nor 1.
  return -weight / std::log(fraction);
}

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
