// What one replica still has to do, in tokens, and for how long it has been busy doing it.
//
// Owned by a Pool, which calls everything here under its mutex; only StreamedTokens is touched without it. Each call
// costs O(log n) for n requests in flight, and O(n) while requests that are not streamed are among them.
//
// A request's prompt is in prefill_left from the choice to its first token, its expected output in decode_left from the
// choice until it was streamed. Whatever the request's end, what is left of both goes: at idle every gauge is exactly
// zero. One exception, for 1 s: see `failure_memory`.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "balancer/tokens.hpp"

namespace weir::balancer {

/// How busy the replica was while a request ran there, this request not counted at its start.
struct Concurrency {
  std::uint32_t in_flight_at_start = 0;
  double in_flight_mean = 0;  ///< Time-weighted, this request counted.
};

/// The counters that stream loops write per token: a cache line of their own for each replica, relaxed. A lease takes
/// off decode_left no more than it put there, and the mutex orders every lease's first write after its opening and
/// its last before its close: neither counter can be read below zero.
struct alignas(64) StreamedTokens {
  std::atomic<Tokens> decode_left{0};
  std::atomic<Tokens> resident{0};  ///< Output tokens of the requests in flight, expected or not.

  void stream(Tokens expected, Tokens all) {
    decode_left.fetch_sub(expected, std::memory_order_relaxed);
    resident.fetch_add(all, std::memory_order_relaxed);
  }
};

class TokenLedger {
 public:
  using Ticket = std::uint64_t;  ///< Rising: an older request has the lower ticket.

  /// A request that ended before its first token without an answer leaves its prompt in prefill_left for so long: a
  /// failure is not capacity, and a replica that fails fast must not draw the traffic.
  static constexpr std::chrono::seconds failure_memory{1};

  struct Work {
    Tokens prompt = 0, output = 0;
    bool stream = true;  ///< Token events will come, so that nothing has to be guessed in the meantime.
  };

  /// At which requests without token events are taken to advance, in tokens per second. 0: not known, they stay
  /// where they are until their end.
  struct DrainRates {
    double prefill = 0;  ///< Of the whole replica: the oldest prompt is worked on first.
    double decode = 0;   ///< Of each request.
  };

  /// What the pool learns from when a request has ended.
  struct Closed {
    Concurrency concurrency;
    Tokens prompt = 0;
    std::optional<Moment> first_token;
  };

  explicit TokenLedger(Moment start) : updated_(start) {}

  /// Brings everything up to `now`: integrals, forgotten failures, work that is taken to be done. The gauges are as of
  /// the latest call of any member that takes the time. A `now` before the latest one counts as the latest one.
  void advance(Moment now);

  void open(Ticket ticket, const Work& work, Moment now);

  /// The prompt leaves prefill_left. Returns the output tokens that the lease shall take off itself from now on, in
  /// addition to what it holds: those of a request that was not expected to show any. Absent: not the first one.
  std::optional<Tokens> first_token(Ticket ticket, Moment now);

  /// `output_left` and `streamed`: what the lease holds, and what it has put into StreamedTokens::resident.
  Closed close(Ticket ticket, bool answered, Tokens output_left, Tokens streamed, Moment now);

  void set_drain_rates(DrainRates rates) { rates_ = rates; }

  Tokens prefill_left() const { return prefill_left_; }
  Tokens decode_left() const { return streamed_.decode_left.load(std::memory_order_relaxed); }
  /// Prompts and output so far of all that runs here: what lies in the replica's KV cache.
  Tokens resident() const { return prompts_ + streamed_.resident.load(std::memory_order_relaxed); }
  std::uint32_t in_flight() const { return static_cast<std::uint32_t>(entries_.size()); }
  std::uint32_t recent_failures() const { return static_cast<std::uint32_t>(failures_.size()); }
  double oldest_unanswered_seconds() const;

  /// Integrals, in seconds. `pending`: time in which any streamed prompt was waiting for its first token.
  double busy_seconds() const { return busy_seconds_; }
  double prefill_seconds() const { return prefill_seconds_; }
  double decode_seconds() const { return decode_seconds_; }
  double pending_seconds() const { return pending_seconds_; }

  StreamedTokens& streamed() { return streamed_; }

 private:
  struct Entry {
    Moment since;
    Tokens prompt = 0;
    bool silent = false;     ///< No token event is expected: work and output are drained here.
    double work = 0;         ///< Of the prompt, by the learned rate.
    double output_left = 0;  ///< Held here while silent, else by the lease.
    Tokens drained = 0;      ///< Output taken to have been made while silent.
    std::optional<Moment> first_token;
    std::uint32_t in_flight_at_start = 0;
    double in_flight_seconds_at_start = 0;
  };
  struct Failure {
    Moment until;
    Tokens prompt = 0;
  };

  static Tokens queued(const Entry& entry);
  void drain(double elapsed);

  StreamedTokens streamed_;
  std::map<Ticket, Entry> entries_;
  std::deque<Failure> failures_;  ///< In the order in which they are forgotten.
  Moment updated_;
  DrainRates rates_;
  Tokens prefill_left_ = 0, prompts_ = 0;
  std::uint32_t silent_ = 0, pending_ = 0, streaming_ = 0;  ///< Sum to the number of entries.
  double busy_seconds_ = 0, prefill_seconds_ = 0, decode_seconds_ = 0, pending_seconds_ = 0;
};

}  // namespace weir::balancer
