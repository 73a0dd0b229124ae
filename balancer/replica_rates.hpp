// This learns how fast a replica works from what it did.
//
// The prefill rate is the uncached prompt tokens that were finished per second in which any prompt was pending; tokens
// and seconds fade with the pending time. So idle time says nothing, and a replica that gets less traffic does not look
// slow. Time is read when a prompt is finished, never in the middle of one. The time that failures took counts with the
// next success; their tokens never count. The decode rate is the output tokens per second of one request between its
// first token and its end, as an EWMA.
//
// A Pool owns it and calls it under its mutex.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "balancer/tokens.hpp"

namespace weir::balancer {

class ReplicaRates {
 public:
  /// A rate is known after so many requests.
  static constexpr std::uint32_t requests_needed = 20;
  /// What was learned fades to 1/e in so many pending seconds.
  static constexpr double memory_seconds = 30;

  /// Says that a first token came. `pending_seconds` is the integral up to now (TokenLedger::pending_seconds).
  void prompt_finished(Tokens prompt, double pending_seconds);
  /// Says that the prompt that was finished as `taken_for` turned out to have `uncached` tokens to work on.
  void prompt_settled(Tokens taken_for, Tokens uncached);
  /// Leaves out the time since the latest finished prompt: the replica hung, which says nothing of its speed.
  void leave_out_until(double pending_seconds) { pending_seconds_ = pending_seconds; }
  /// Forgets the prefill rate. It is learned anew, and known after `requests_needed` requests.
  void forget_prefill(double pending_seconds);
  void answer_finished(Tokens output, double decode_seconds);

  /// Both are in tokens per second.
  std::optional<double> prefill() const;
  std::optional<double> decode() const;

 private:
  double tokens_ = 0, seconds_ = 0;
  double pending_seconds_ = 0;  ///< The integral as of the latest finished prompt.
  std::uint32_t prompts_ = 0;
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
