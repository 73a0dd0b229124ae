// The mutex of a pool, and the parts that it guards. Nobody reaches the parts but by a call that holds the mutex. It is
// held for a decision and never across I/O. Nothing here blocks, posts or reads a clock.
#pragma once

#include <cstdint>
#include <mutex>
#include <type_traits>

#include "balancer/candidates.hpp"
#include "balancer/lease_book.hpp"
#include "balancer/pending_grants.hpp"
#include "balancer/pool_state.hpp"
#include "balancer/queue_server.hpp"
#include "balancer/starts.hpp"

namespace weir::balancer {

struct PoolParts {
  PoolParts(LeaseOwner& owner, std::uint64_t seed) : leases(state, starts, owner, seed) {}

  void apply_policy() {
    state.counts_cached = state.prefix_aware && state.policy == config::Policy::least_queued_tokens;
    // Prompts that are not entered take the room of those that are.
    if (!state.counts_cached) state.prefixes.forget_prompts();
    leases.set_policy(state.policy);
  }

  PoolState state;
  Starts starts{state};
  LeaseBook leases;
  Candidates candidates{state};
  QueueServer queue{state, candidates, leases};
};

class PoolCore {
 public:
  PoolCore(GrantSink* sink, LeaseOwner& owner, std::uint64_t seed) : sink_(sink), parts_(owner, seed) {}

  bool has_sink() const { return sink_ != nullptr; }

  /// Runs `use(parts)` while the mutex is held.
  template <class Use>
  auto locked(Use use) {
    const std::lock_guard lock(mutex_);
    return use(parts_);
  }

  /// Lets time pass and runs `decide(parts, grants)` while the mutex is held. The grants go to the sink after that.
  template <class Decide>
  auto granting(Moment now, Decide decide) {
    PendingGrants grants(sink_);
    const std::lock_guard lock(mutex_);
    parts_.state.pass(now);
    return decide(parts_, grants);
  }

  /// Whatever makes room, time included, does it here: `change(parts)` runs while the mutex is held, and then the queue
  /// is served.
  template <class Change>
  auto free_room(Moment now, Change change) {
    return granting(now, [&](PoolParts& parts, PendingGrants& grants) {
      if constexpr (std::is_void_v<std::invoke_result_t<Change, PoolParts&>>) {
        change(parts);
        parts.queue.serve(grants);
      } else {
        auto result = change(parts);
        parts.queue.serve(grants);
        return result;
      }
    });
  }

 private:
  GrantSink* const sink_;
  std::mutex mutex_;
  PoolParts parts_;
};

}  // namespace weir::balancer
