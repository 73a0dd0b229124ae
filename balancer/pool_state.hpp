// The state that a pool shares with its health, its starts and its Retry-After. Its PoolCore's mutex guards it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "balancer/models.hpp"
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
  PrefixIndex prefixes;
  bool lists_differ = false;  ///< Two replicas list different models, or did until one of them left.
  Split split;
  std::uint32_t in_flight = 0;
  /// The seconds in which requests waited, and the prompt tokens that were finished then or had waited.
  FadingSum waited_seconds, drained_tokens;

  /// Notes whether the replicas list different models, after a list has changed.
  void compare_lists() {
    lists_differ = false;
    const PoolReplica* first = nullptr;
    for (const PoolReplica& replica : replicas.named()) {
      if (!replica.models.is_known()) continue;
      if (first == nullptr) first = &replica;
      lists_differ |= replica.models.differs_from(first->models);
    }
  }

  /// True while requests wait for what replicas do. An outage is no slow queue.
  bool drains() const { return !waiting.empty() && !replicas.none_up(); }
  void prompt_finished(Tokens tokens, bool waited) {
    if (waited || drains()) drained_tokens.add(static_cast<double>(tokens), latest);
  }
  /// Returns the prompt tokens that are finished per second while requests wait, or a higher rate: a queue that waited
  /// for a replica's rest is finished while nobody waits. Nothing while that is unknown.
  std::optional<double> drain_rate() const {
    constexpr double known_after_seconds = 1;
    const double seconds = waited_seconds.at(latest), tokens = drained_tokens.at(latest);
    if (seconds < known_after_seconds || tokens <= 0) return std::nullopt;
    return tokens / seconds;
  }

  /// Lets time pass. Returns the latest time.
  Moment pass(Moment now) {
    const Moment before = std::exchange(latest, std::max(latest, now));
    if (drains()) waited_seconds.add(std::min(metrics::seconds(latest - before), FadingSum::memory), latest);
    return latest;
  }
};

// Retry-After is the work ahead of a refused request (prompts that replicas have left, prompts that wait, its own)
// divided by the rate of the last seconds in which requests waited. Until that rate is known, replicas count with the
// rate that their answers have taught, or with an assumed one, and at least 5 s are assumed: a client that comes back
// too early is refused once more, and gives up.
//
// A Pool calls it under its mutex.

/// Refuses a request, and tells when it may come back.
///
/// A client's Retry-After is spread by up to a half more (proxy/exchange/failure_answers), so that it comes back a
/// quarter later in the mean: it is told 0.85 of the time. With the spread that is at most 60 s, since clients of
/// OpenAI's and Anthropic's libraries follow no longer one.
Refused refuse(const PoolState& pool, Refused::Reason reason, const WaitingRequest& request);

}  // namespace weir::balancer
