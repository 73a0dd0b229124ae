// The decisions of a pool and the mutex that guards them. The mutex is held for a decision and never across I/O.
// Nothing here blocks, posts or reads a clock.
//
// PoolParts decides: it chooses a replica (choose.cpp), keeps the books of the leases and learns from them (books.cpp),
// and serves those that wait (queue.cpp). Values of their own, which know nothing of a pool, are the queue, the split,
// the prefix index, and what stands in each PoolReplica: ledger, times, health, evidence.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "balancer/eligibility.hpp"
#include "balancer/estimate.hpp"
#include "balancer/lease.hpp"
#include "balancer/placement.hpp"
#include "balancer/policy/policies.hpp"
#include "balancer/pool_state.hpp"
#include "balancer/replica_view.hpp"
#include "balancer/silence.hpp"

namespace weir::balancer {

class PoolParts {
 public:
  /// A request that has had its turn and fitted nowhere while others went waits so long; then a replica is reserved.
  static constexpr std::chrono::seconds reserve_after{5};

  /// `owner` is the owner of all leases. `seed` feeds ties and the random policies.
  PoolParts(LeaseOwner& owner, std::uint64_t seed) : owner_(owner), random_(seed) {}

  PoolState state;
  Starts starts{state};

  void set_policy(config::Policy policy);
  void set_prefix_aware(bool aware);
  void set_split(std::optional<double> share);
  std::vector<ReplicaIndex> set_replicas(std::span<const ReplicaSpec> specs);
  /// True if the choice looks at what replicas hold of prompts.
  bool counts_cached() const { return prefix_aware_ && kind_ == config::Policy::least_queued_tokens; }

  /// Admits a request, has it wait if it `can_wait`, or refuses it. A request that goes through the queue is served
  /// with all others.
  Offered offer(const PlacementRequest& placement, bool can_wait, PendingGrants& grants);
  /// Takes a request out of the queue. Returns what to tell it; nothing if it was not waiting any more.
  std::optional<Refused> leave(WaitTicket ticket);
  /// Grants as much as there is room for, in the order of turns.
  void serve(PendingGrants& grants);
  /// Pushes out what is beyond the limits of the queue.
  void bound(PendingGrants& grants);

  // A lease calls these through its owner.
  Tokens first_token(const LedgerEntry& entry);
  Concurrency end(const LedgerEntry& entry, LeaseEnd end);

 private:
  // choose.cpp: a look takes the gauges of all named replicas; each request then finds its candidates among them.

  /// Brings the views of all named replicas up to date, but for a candidate's that gets no request. With `for_queue` a
  /// replica on which a lease has just failed looks full: see Evidence::Advice.
  void look(bool for_queue);
  /// Finds the candidates of a request in found_. `ticket` is 0 for a request that does not wait.
  Narrowed find(const WaitingRequest& request, WaitTicket ticket, bool can_wait);
  /// Finds the replicas that may be reserved for the request: those that it would get if all that are in had nothing to
  /// do. Another one would stand idle. Returns false if there is none.
  bool find_reservable(const WaitingRequest& request, WaitTicket ticket);
  /// True if the pool's own limits let a prompt in, as of the latest look.
  bool pool_has_room(Tokens prompt) const;
  /// True if a prompt may find room somewhere. If it is the shortest that waits, nothing has room when this is false.
  bool any_may_take(Tokens prompt) const;
  void gather_for(const WaitingRequest& request, WaitTicket ticket);
  void note_ties(const WaitingRequest& request);
  void note_lacking(const WaitingRequest& request);
  void price_waste();
  void price_switch(const WaitingRequest& request);
  Narrowed narrow_found(const WaitingRequest& request, bool can_wait);
  bool look_up(const WaitingRequest& request);
  double prompt_load() const;

  // books.cpp: a lease is taken in the same critical section as the choice; its first token and its end teach.

  void estimate(WaitingRequest& request);
  Tokens output_cost(const metrics::wire::RequestFacts& facts) const;
  /// Chooses one of found_ and takes the lease.
  Lease take(const WaitingRequest& request, const Narrowed& narrowed);
  std::unique_ptr<PrefixChoice> note_sent(const WaitingRequest& request, const ReplicaView& chosen);
  void note_model(LedgerEntry& entry, const WaitingRequest& request, const ReplicaView& chosen);
  void note_passed_over(const policy::Job& job, const ReplicaView& chosen, double first_token_there);
  bool shows_pace(const LedgerEntry& entry, double seconds) const;
  void learn_prefix(const LedgerEntry& entry, const LeaseEnd& end, const TokenLedger::Closed& closed);
  void learn_give_up(const LedgerEntry& entry);
  void learn(PoolReplica& replica, const LedgerEntry& entry, const LeaseEnd& end, const TokenLedger::Closed& closed);
  void prompt_finished(PoolReplica& replica, const LedgerEntry& entry, Tokens uncached);

  // queue.cpp

  Offered wait(WaitingRequest request, PendingGrants& grants);
  bool comes_too_late(const WaitingRequest& request) const;
  bool serve_next(PendingGrants& grants);
  bool serve_reserved(PendingGrants& grants);
  bool serve_reserved(const std::optional<WaitTicket>& reserved_for, PendingGrants& grants);
  /// Reserves a replica for each request that has been passed over too long: the one that has the least to do. At most
  /// half of those that take requests are reserved, so that the others go on; a lone one is, too.
  void reserve();
  /// Ends the reservations whose request waits no more, or would not get the replica. Returns true if any ended.
  bool drop_reservations();

  LeaseOwner& owner_;
  policy::Random random_;
  config::Policy kind_ = config::Policy::least_queued_tokens;
  std::unique_ptr<policy::Policy> policy_;
  bool prefix_aware_ = false;
  TokenEstimator estimator_;
  ExpectedOutput expected_output_;
  std::shared_ptr<StepTimes> steps_of_all_ = std::make_shared<StepTimes>();
  std::map<std::string, std::shared_ptr<StepTimes>> steps_;  ///< By configuration.
  SwitchPrices switches_;
  FadingSum prompt_seconds_;  ///< The time that all replicas spent on prompts.
  TokenLedger::Ticket tickets_ = 0;
  std::optional<WaitTicket> reserved_for_;  ///< No replica takes anything else: the pool's own limit stands against it.

  /// The latest look: the named replicas without those that a split closes, and the candidates that were found last.
  std::vector<ReplicaView> views_, found_;
  Tokens queued_ = 0;  ///< The prefill_left of all views.
  std::uint32_t in_flight_ = 0;
  bool for_queue_ = false;
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
        parts.serve(grants);
      } else {
        auto result = change(parts);
        parts.serve(grants);
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
