// A ledger counts the tokens that one replica has left to process, and its signs of life.
//
// A Pool owns it and calls everything here under its mutex; only StreamedTokens is touched without it. Each call costs
// O(log n) for n requests in flight, and O(n) while requests that are not streamed are among them.
//
// The uncached tokens of a request's prompt are in prefill_left from the choice to its first token. Its expected output
// is in decode_left from the choice until it was streamed. Whatever the request's end, what is left of both goes: at
// idle every gauge is exactly zero. There is one exception, for 1 s: see `failure_memory`.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>

#include "balancer/tokens.hpp"

namespace weir::balancer {

/// How many other requests the replica had when one request started, and how many it worked on while that one ran.
struct Concurrency {
  std::uint32_t in_flight_at_start = 0;
  double in_flight_mean = 0;  ///< The mean over time, this request included.
};

/// Stream loops write these counters per token. Each replica's counters have a cache line of their own, and all access
/// is relaxed. A lease takes off decode_left no more than it put there. The mutex orders every lease's first write
/// after its opening and its last before its close, so neither counter can be read below zero.
struct alignas(64) StreamedTokens {
  std::atomic<Tokens> decode_left{0};
  std::atomic<Tokens> resident{0};  ///< The output tokens of the requests in flight, expected or not.
  std::atomic<Tokens> shown{0};     ///< Rises with each token and each other sign of life.

  void stream(Tokens expected, Tokens all) {
    decode_left.fetch_sub(expected, std::memory_order_relaxed);
    resident.fetch_add(all, std::memory_order_relaxed);
  }
  void show(Tokens expected, Tokens all) {
    stream(expected, all);
    shown.fetch_add(all, std::memory_order_relaxed);
  }
};

class TokenLedger {
 public:
  using Ticket = std::uint64_t;  ///< Tickets rise: an older request has the lower one.
  static constexpr Tokens unbounded = std::numeric_limits<Tokens>::max();

  /// A request that ended before its first token without an answer leaves its prompt in prefill_left for so long. A
  /// failure is not capacity, and a replica that fails fast must not attract the traffic.
  static constexpr std::chrono::seconds failure_memory{1};

  /// While no rate is learned, a prompt of which no token will tell is taken to be worked on for so long.
  static constexpr std::chrono::seconds silent_prompt_takes{5};

  struct Work {
    Tokens prompt = 0, output = 0;
    bool stream = true;  ///< Token events will come, so nothing has to be estimated in the meantime.
    /// Without token events: an answer surely has no more.
    Tokens longest_output = unbounded;
    Tokens cached = 0;  ///< Of the prompt, so much is believed not to be computed. At most the prompt.
    Tokens uncached() const { return prompt - cached; }
  };

  /// Requests without token events are assumed to advance at these rates, in tokens per second. A rate of 0 is unknown:
  /// such requests stay as they are until their end.
  struct DrainRates {
    double prefill = 0;  ///< The rate of the whole replica, which works on the oldest prompt first.
    double decode = 0;   ///< The rate of each request.
  };

  /// The pool learns from this when a request has ended.
  struct Closed {
    Concurrency concurrency;
    /// Means over the time since the first token: sequences that decoded, and tokens in context.
    double sequences = 1, context = 0;
    double computed = 0;  ///< The prompt tokens that were computed for others since the first token.
    Tokens prompt = 0, uncached = 0;
    std::optional<Moment> first_token;
    /// A prompt of which no token was to tell is taken to be computed: by the learned rate, or, while none is learned,
    /// because it was here for silent_prompt_takes.
    bool computed_unseen = false;
  };

  /// Sums over time since the start, in seconds but for the last two.
  struct Integrals {
    double busy_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
    double context_seconds = 0;  ///< Tokens in context times seconds.
    double computed = 0;         ///< The uncached tokens of all prompts that had their first token.
  };

  explicit TokenLedger(Moment start) : updated_(start) {}

  /// Brings everything up to `now`: integrals, forgotten failures, and work that is assumed done. The gauges are those
  /// of the latest call that took the time. A `now` before the latest one counts as the latest one.
  void advance(Moment now);

  /// Nothing else allocates.
  void open(Ticket ticket, const Work& work, Moment now);

  /// Takes the prompt out of prefill_left. Returns the output tokens that the lease is to release by itself from now
  /// on, in addition to what it holds: those of a request that was not expected to show any. Returns nothing if another
  /// token came before.
  std::optional<Tokens> first_token(Ticket ticket, Moment now);

  /// `output_left` is what the lease still holds; `streamed` is what it has added to StreamedTokens::resident.
  Closed close(Ticket ticket, bool answered, Tokens output_left, Tokens streamed, Moment now) noexcept;

  void set_drain_rates(DrainRates rates) { rates_ = rates; }

  Gauges gauges() const {
    const Tokens context = prompts_ + streamed_.resident.load(std::memory_order_relaxed);
    return {.prefill_left = prefill_left_,
            .decode_left = streamed_.decode_left.load(std::memory_order_relaxed),
            .context = context,
            .resident = context - cached_,
            .in_flight = static_cast<std::uint32_t>(entries_.size()),
            .pending = pending_,
            .streaming = streaming_,
            .recent_failures = static_cast<std::uint32_t>(failures_.size()),
            .worked_seconds = in_order_ > 0 ? metrics::seconds(updated_ - worked_since_) : 0,
            .seconds_since_end = metrics::seconds(updated_ - ended_)};
  }
  const Integrals& integrals() const { return integrals_; }

  /// Says whether a request's answer is left unread for a slow client: what it owes is not the replica's fault then.
  void leave_unread(Ticket ticket, bool unread, Moment now);
  /// Says that the replica gave a whole answer, or works by its own counters: silence begins anew.
  void lives(Moment now);
  /// Returns the moment of the latest sign of life; nothing if there was none. Tokens are seen as of each call here and
  /// in the two below, so they are to be called often.
  std::optional<Moment> last_life(Moment now);
  /// Returns for how long the replica has given no sign of life, while at least one stream that weir reads was to get
  /// tokens; 0 if none is.
  double silent_seconds(Moment now);

  /// The oldest request that is not streamed and whose answer weir waits for.
  struct Unstreamed {
    double silent_seconds = 0;  ///< For so long it is here, and the replica has given no sign of life.
    Tokens prompt = 0;          ///< So much was to be worked on before its answer, its own prompt included.
    Tokens output = 0;          ///< The expected output.
    Tokens longest_output = 0;  ///< See Silence: of those that have been here as long as this request is silent.
  };
  /// The replica's silence, and the work that explains it. Whole prompts count: cached ones may have left the cache.
  struct Silence {
    double seconds = 0;                    ///< See silent_seconds().
    double oldest_unanswered_seconds = 0;  ///< The age of the oldest stream without a first token.
    /// The prompts that were to be worked on before the oldest stream without a token gets one, its own included.
    Tokens due_to_first_token = 0;
    /// The prompts of all requests that have shown nothing yet. An engine that prefills them may stop the streams that
    /// it decodes.
    Tokens unanswered = 0;
    /// The longest output that a request that is not streamed may have, of those that have been here for as long as the
    /// replica is silent. An engine that works on one request at a time may be silent for as long as that takes.
    Tokens longest_output = 0;
    bool owes_more_tokens = false;  ///< A stream that has begun is to get tokens.
    std::optional<Unstreamed> unstreamed{};
  };
  Silence silence(Moment now);

  /// Returns the prompt tokens of requests that came at `since` or later, will show no token, and are taken to be
  /// worked on: by the learned rate, or because they have been here for `silent_prompt_takes`.
  Tokens finished_unseen(Moment since) const;
  /// The requests that are here now count in no silence any more.
  void forget_silence();

  StreamedTokens& streamed() { return streamed_; }

 private:
  struct Entry {
    Moment since;
    Tokens prompt = 0, uncached = 0;
    Tokens output = 0;  ///< The output that was expected.
    Tokens longest_output = 0;
    Tokens silent_ahead = 0;  ///< So much work on silent entries lay before it when it came.
    double work = 0;          ///< By the learned rate, so much of the prompt is left to do.
    double output_left = 0;   ///< Kept here while the entry is silent, else by the lease.
    Tokens drained = 0;       ///< So much output was assumed made while the entry was silent.
    std::optional<Moment> first_token;
    double in_flight_seconds_at_start = 0;
    std::uint32_t in_flight_at_start = 0;
    Integrals at_first;   ///< As they were when the first token came.
    bool shows = false;   ///< Opened as a stream whose tokens are seen.
    bool unread = false;  ///< The answer is not read now.
    bool silent = false;  ///< No token event is expected: work and output are drained here.
  };
  using Entries = std::map<Ticket, Entry>;

  static Tokens queued(const Entry& entry);
  bool owes(Ticket ticket, const Entry& entry) const { return !entry.unread && ticket > forgotten_; }
  bool owes_tokens(Ticket ticket, const Entry& entry) const { return entry.shows && owes(ticket, entry); }
  bool waits_in_order(Ticket ticket, const Entry& entry) const {
    return entry.shows && !entry.first_token && ticket > overtaken_;
  }
  void begin_to_owe();
  void overtake(Ticket ticket);
  void look(Moment now);
  double seconds_since(Moment since) const;
  Tokens longest_unstreamed_output(double seconds) const;
  void drain(double elapsed);

  StreamedTokens streamed_;
  Entries entries_;
  Entries failures_;   ///< In the order in which they are forgotten: `since` is when, `uncached` what of the prompt.
  Ticket failed_ = 0;  ///< So many have failed, and the last one's place in failures_.
  Moment updated_;
  DrainRates rates_;
  Tokens prefill_left_ = 0, prompts_ = 0;
  Tokens cached_ = 0;                                       ///< Of the prompts.
  std::uint32_t silent_ = 0, pending_ = 0, streaming_ = 0;  ///< Their sum is the number of entries.
  std::uint32_t owing_ = 0;                                 ///< So many streams are to get tokens.
  std::uint32_t in_order_ = 0;  ///< So many of those pending came after all that have had their first token.
  Ticket overtaken_ = 0;        ///< The youngest that has had one.
  Ticket forgotten_ = 0;        ///< Up to this one requests are not asked for answers any more.
  Tokens shown_ = 0;            ///< As of the latest look.
  std::optional<Moment> life_;  ///< The latest sign of life.
  Moment owing_since_{};        ///< Since when any stream is to get tokens.
  Moment worked_since_{}, ended_{};
  Integrals integrals_;
};

}  // namespace weir::balancer
