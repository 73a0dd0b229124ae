// Tracks how one replica reports its token counts: whether the replica tells them unasked, takes the usage option that
// weir adds to requests, or refuses it.
#pragma once

#include <atomic>
#include <cstdint>

#include "metrics/record/answer.hpp"
#include "metrics/vocabulary.hpp"
#include "metrics/wire/request/edits.hpp"

namespace weir::balancer::story {

/// Shared by all requests to the replica; any thread may use it. Each function costs a relaxed load or two.
class UsageOption {
 public:
  /// The settings of the replica: whether weir asks for usage at all, and on every chunk.
  struct Settings {
    bool ask = true, on_every_chunk = false;
  };

  /// Returns what the replica is asked to tell. One that tells its counts unasked keeps its `timings`, which go with
  /// the usage event where usage is asked for.
  metrics::wire::Ask ask(const Settings& settings, metrics::Api api) const;

  /// True if the replica has taken the option in a request of this API before: a later refusal has another cause.
  bool was_taken(metrics::Api api) const;
  void note_taken(metrics::Api api);

  /// Says that the replica took the original of a request that it had refused: the option was the cause. Returns true
  /// if nobody had said so before.
  bool refuse() { return !refused_.exchange(true); }
  bool is_refused() const { return refused_.load(std::memory_order_relaxed); }

  /// Notes whether the replica tells its counts unasked. Where another engine runs now, one answer without counts is
  /// enough to ask again.
  void learn(metrics::Api api, metrics::Outcome outcome, const metrics::record::Answer& answer);

  /// Forgets refusals and acceptances, so that the replica is asked again.
  void ask_again();

 private:
  bool tells_counts(metrics::Api api) const;

  std::atomic<bool> refused_{false};
  // A bit for each API.
  std::atomic<std::uint32_t> taken_{0}, tells_counts_{0};
};

}  // namespace weir::balancer::story
