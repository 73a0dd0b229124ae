// The state that all parts of a pool share. Its PoolCore's mutex guards it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "balancer/placement.hpp"
#include "balancer/prefix/index.hpp"
#include "balancer/replica_set.hpp"
#include "balancer/residency.hpp"
#include "balancer/split.hpp"
#include "balancer/tokens.hpp"
#include "balancer/waiting_queue.hpp"

namespace weir::balancer {

struct PoolState {
  PoolLimits limits;
  Moment latest = Moment::min();  ///< The latest time that any call gave. Calls may bring theirs out of order.
  ReplicaSet replicas;
  WaitingQueue waiting;
  config::Policy policy = config::Policy::least_queued_tokens;
  bool prefix_aware = false;
  PrefixIndex prefixes;
  bool lists_differ = false;     ///< Two replicas list different models, or did until one of them left.
  bool counts_cached = false;  ///< Prefix-aware, and the policy looks at it.
  Split split;
  std::uint32_t in_flight = 0;
  std::shared_ptr<StepTimes> steps_of_all = std::make_shared<StepTimes>();
  std::map<std::string, std::shared_ptr<StepTimes>> steps;  ///< By configuration.
  SwitchPrices switches;
  FadingSum prompt_seconds;                                 ///< The time that all replicas spent on prompts.
  /// The seconds in which requests waited, and the prompt tokens that were finished then or had waited.
  FadingSum waited_seconds, drained_tokens;
  std::optional<WaitTicket> reserved_for;  ///< No replica takes anything else: the pool's own limit stands against it.

  /// Notes which replicas get no request, after the split or the replicas have changed.
  void close_candidates() {
    for (PoolReplica& replica : replicas.all()) replica.closed = split.closes_candidate() && replica.spec.candidate;
  }

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

  /// Looks what the replicas hold of a request's prompt. Returns false if nothing is known of it.
  bool look_up(const WaitingRequest& request) {
    if (!counts_cached || !request.prefix) return false;
    prefixes.look(*request.prefix, request.prompt);
    return true;
  }
  /// Returns how much of the prompt that was looked up last the replica need not compute. Below the prompt.
  Tokens cached(const WaitingRequest& request, ReplicaIndex replica) const {
    return prefixes.cached(replica, request.prompt);
  }

  /// Returns what it costs beside the request's own time that `replica` serves the prompt that was looked up last, in
  /// tokens to compute. It holds `cached` of it, and `best` holds most, `most`.
  ///
  /// Work that is done twice takes another prompt's place in a cache, and keeps those waiting that come after. But a
  /// beginning that others will have, too, is computed once for all of them: the price halves with each request that
  /// has used it, and goes to -1, which is nothing at all.
  ///
  /// What takes room in a full cache pushes out what others may want again. How often they do, the replica has shown. A
  /// copy that is used stays: so it takes as much room as it has sunk towards the end of the cache.
  double waste(ReplicaIndex best, ReplicaIndex replica, Tokens most, Tokens cached) const {
    constexpr double unshared = 4, of_room = 8;
    const double price = unshared * std::exp2(-static_cast<double>(prefixes.uses(best))) - 1;
    const double twice = price * static_cast<double>(most - cached);
    const ReplicaPrefixes& prompts = prefixes.of(replica);
    const PrefixHoldings& holdings = prompts.holdings();
    const Tokens bucket = holdings.capacity() / PrefixHoldings::buckets_of_capacity;
    if (holdings.held() + (most - cached) + bucket <= holdings.capacity()) return twice;
    const double sunk =
        cached > 0 ? static_cast<double>(prefixes.found(replica).depth) / static_cast<double>(holdings.capacity()) : 1;
    return twice + of_room * prompts.wanted_again() * std::min(sunk, 1.0) * static_cast<double>(most);
  }

  /// Gives each replica the step times of its configuration, and forgets those of configurations that are gone.
  void share_steps() {
    for (PoolReplica& replica : replicas.named()) {
      auto& shared = steps[replica.spec.config];
      if (!shared) shared = std::make_shared<StepTimes>(steps_of_all);
      replica.time.set_steps(shared);
    }
    std::erase_if(steps, [](const auto& one) { return one.second.use_count() == 1; });
  }
  /// Returns the share of their time that the replicas that are in spend on prompts, 0 to 0.95.
  double prompt_load() const {
    double in = 0;
    for (const PoolReplica& replica : replicas.named()) in += replica.is_in() ? 1 : 0;
    return in > 0 ? std::min(prompt_seconds.at(latest) / FadingSum::memory / in, 0.95) : 0;
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

}  // namespace weir::balancer
