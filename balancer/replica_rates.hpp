// Learns how fast a replica works from what it did.
//
// The prefill rate is the prompt tokens that the engine computed per second in which it computed them. What its prefix
// cache held is no work, and a prompt of which little was to be computed says nothing: its time is that of a step of
// the engine, and not of its tokens. So first tokens make stretches. A stretch goes from the last first token before it
// to its own last one; first tokens that came together, such as those of one batch, are of one stretch, and so are
// those between which an older prompt waited, for the engine worked on that all the while. A stretch teaches once every
// answer of it has told its counts, and if at least `least_computed` tokens and half of its prompts were computed.
// Otherwise neither its tokens nor its time count; nor do they if one of its requests did not end with an answer,
// because nobody knows then what was cached.
//
// Time in which no prompt is pending does not count: idle time says nothing, and a replica that gets less traffic does
// not look slow. Tokens and seconds fade with the time that was counted, and, down to `least_seconds`, with the time
// that passes: the first answers of an engine that had to compile must not stand against it for long. The decode rate
// is the output tokens per second of one request between its first token and its end, as an EWMA.
//
// A Pool owns it and calls it under its mutex. A call costs O(log n) for n requests in flight. Only prompt_began() and
// prompt_finished() allocate; if they throw, nothing has changed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "balancer/tokens.hpp"

namespace weir::balancer {

class ReplicaRates {
 public:
  using Ticket = std::uint64_t;  ///< The ledger's: an older request has the lower one.

  /// A rate is known after so many requests; after so many again once it was forgotten.
  static constexpr std::uint32_t requests_needed = 20, requests_needed_again = 8;
  /// Learned tokens and seconds fade to 1/e in so many seconds that are counted, and in so many that pass.
  static constexpr double memory_seconds = 30, doubt_seconds = 15;
  static constexpr double least_seconds = 0.5;
  static constexpr Tokens least_computed = 256;
  /// First tokens within so many seconds came together.
  static constexpr double together_seconds = 0.005;

  void prompt_began(Ticket ticket) { pending_.try_emplace(ticket); }
  /// Says that a first token came. `pending_seconds` is the integral up to now (TokenLedger::pending_seconds).
  void prompt_finished(Ticket ticket, double pending_seconds, Moment now);
  /// Says how many tokens the prompt had, and how many of them there were to work on.
  void prompt_settled(Ticket ticket, Tokens prompt, Tokens computed, Moment now);
  /// Says that the request is over. Unless it was settled, nobody knows what was computed of it.
  void prompt_ended(Ticket ticket, Moment now);
  /// Leaves out the time since the latest finished prompt: the replica hung, which says nothing of its speed.
  void leave_out_until(double pending_seconds);
  /// Forgets the prefill rate, which is learned anew.
  void forget_prefill(double pending_seconds);
  void answer_finished(Tokens output, double decode_seconds);

  /// Both are in tokens per second.
  std::optional<double> prefill() const;
  std::optional<double> decode() const;
  /// Returns since when the last `requests_needed_again` requests have taught the prefill rate.
  Moment tested_since() const { return lessons_[next_lesson_]; }

 private:
  struct Stretch {
    double seconds = 0;
    Tokens prompts = 0, computed = 0;
    std::uint32_t requests = 0, unsettled = 0;
    bool unknown = false;  ///< The tokens computed in it are unknown.
    bool over = false;     ///< No more first tokens are of it.
  };
  void end_stretch(Moment now);
  void learn(const Stretch& stretch, Moment now);

  double tokens_ = 0, seconds_ = 0;
  double pending_seconds_ = 0;  ///< The integral where the current stretch began.
  double together_until_ = 0;   ///< A first token until then is of the current stretch.
  std::shared_ptr<Stretch> stretch_;
  /// The requests without a first token, which have no stretch yet, and those with one whose counts are not told.
  std::map<Ticket, std::shared_ptr<Stretch>> pending_, unsettled_;
  std::uint32_t prompts_ = 0;
  std::array<Moment, requests_needed_again> lessons_{};
  std::size_t next_lesson_ = 0;
  Moment learned_{};
  double decode_ = 0;
  std::uint32_t answers_ = 0;
};

/// Returns the middle value, or the mean of the two middle ones; 0 if there are none. Reorders `values`.
double median_of(std::span<double> values);

/// Returns a replica's speed relative to its pool's median, within 0.25 to 4. It is 1 if there is nothing to compare,
/// or if it is within 10 % of the median. Equal replicas learn rates that differ by chance. Any difference would break
/// every tie, so that at light load one of them got all the traffic.
double relative_speed(std::optional<double> rate, double median);

}  // namespace weir::balancer
