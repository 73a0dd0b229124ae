// The decisions of a pool, and the mutex that guards them. The mutex is held for a decision and never across I/O.
// Nothing here blocks, posts or reads a clock.
//
// PoolState decides: it chooses a replica and serves those that wait (pool_choice.cpp), and keeps the books of the
// leases and learns from them (pool_books.cpp). Values of their own, which know nothing of a pool, are the queue, the
// split, the prefix index, and what stands in each PoolReplica: ledger, times, health, evidence.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "balancer/affinity.hpp"
#include "balancer/eligibility.hpp"
#include "balancer/estimate.hpp"
#include "balancer/models.hpp"
#include "balancer/placement.hpp"
#include "balancer/policy/policies.hpp"
#include "balancer/prefix/index.hpp"
#include "balancer/replica_set.hpp"
#include "balancer/replica_view.hpp"
#include "balancer/waiting_queue.hpp"

namespace weir::balancer {

/// The knowledge and the decisions of a pool, under the mutex of its PoolCore.
class PoolState {
 public:
  /// A request that has had its turn and fitted nowhere while others went waits so long; then a replica is reserved.
  static constexpr std::chrono::seconds reserve_after{5};

  /// `owner` is the owner of all leases. `seed` feeds ties and the random policies.
  PoolState(Pool& owner, std::uint64_t seed) : owner_(owner), random_(seed) {}

  PoolLimits limits;
  Moment latest = Moment::min();  ///< The latest time that any call gave. Calls may bring theirs out of order.
  ReplicaSet replicas;
  WaitingQueue waiting;
  PrefixIndex prefixes;
  Split split;
  std::uint32_t in_flight = 0;

  /// Lets time pass. Returns the latest time.
  Moment pass(Moment now) {
    const Moment before = std::exchange(latest, std::max(latest, now));
    if (drains()) drain_.waited_seconds.add(std::min(metrics::seconds(latest - before), FadingSum::memory), latest);
    return latest;
  }

  /// Notes whether the replicas list different models, after a list has changed.
  void compare_lists() {
    lists_differ_ = false;
    const PoolReplica* first = nullptr;
    for (const PoolReplica& replica : replicas.named()) {
      if (!replica.models.is_known()) continue;
      if (first == nullptr) first = &replica;
      lists_differ_ |= replica.models.differs_from(first->models);
    }
  }

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

  /// Ends the starts of replicas that have finished enough: whose allowance reaches the median prefill_left of their
  /// peers; without peers, their own prefill_left and the queue.
  void end_starts();

  // A lease calls these through its owner.
  Tokens first_token(const LedgerEntry& entry);
  Concurrency end(const LedgerEntry& entry, LeaseEnd end);

 private:
  // pool_choice.cpp: a look takes the gauges of all named replicas; each request then finds its candidates among them.

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

  // pool_books.cpp: a lease is taken in the same critical section as the choice; its first token and its end teach.

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

  // pool_choice.cpp: requests wait, are granted in the order of their turns what has become free, and are refused.

  /// True while requests wait for what replicas do. An outage is no slow queue.
  bool drains() const { return !waiting.empty() && !replicas.none_up(); }
  /// Returns the prompt tokens that are finished per second while requests wait, or a higher rate: a queue that waited
  /// for a replica's rest is finished while nobody waits. Nothing while that is unknown.
  std::optional<double> drain_rate() const {
    constexpr double known_after_seconds = 1;
    const double seconds = drain_.waited_seconds.at(latest), tokens = drain_.tokens.at(latest);
    if (seconds < known_after_seconds || tokens <= 0) return std::nullopt;
    return tokens / seconds;
  }
  /// Refuses a request, and tells when it may come back.
  ///
  /// Retry-After is the work ahead of a refused request (prompts that replicas have left, prompts that wait, its own)
  /// divided by the rate of the last seconds in which requests waited. Until that rate is known, replicas count with
  /// the rate that their answers have taught, or with an assumed one, and at least 5 s are assumed: a client that comes
  /// back too early is refused once more, and gives up.
  ///
  /// A client's Retry-After is spread by up to a half more (proxy/exchange/failure_answers), so that it comes back a
  /// quarter later in the mean: it is told 0.85 of the time. With the spread that is at most 60 s, since clients of
  /// OpenAI's and Anthropic's libraries follow no longer one.
  Refused refuse(Refused::Reason reason, const WaitingRequest& request) const;
  double seconds_until_done(const WaitingRequest& request) const;
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

  Pool& owner_;
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

  bool lists_differ_ = false;  ///< Two replicas list different models, or did until one of them left.
  struct Drain {
    FadingSum waited_seconds;  ///< The time in which requests waited.
    FadingSum tokens;          ///< The prompt tokens that were finished then, or had waited.
  };
  Drain drain_;

  /// The latest look at the named replicas.
  struct Look {
    std::vector<ReplicaView> views;  ///< Without those that a split closes.
    Tokens queued = 0;               ///< The prefill_left of all.
    std::uint32_t in_flight = 0;
    bool for_queue = false;
  };
  Look seen_;
  std::vector<ReplicaView> found_;  ///< The candidates that were found last.
  std::vector<double> held_;        ///< By those that are up; kept for its memory.
};

/// The mutex of a pool, and what it guards.
class PoolCore {
 public:
  PoolCore(GrantSink* sink, Pool& owner, std::uint64_t seed) : sink_(sink), pool_(owner, seed) {}

  bool has_sink() const { return sink_ != nullptr; }

  /// Runs `use(pool)` while the mutex is held.
  template <class Use>
  auto locked(Use use) {
    const std::lock_guard lock(mutex_);
    return use(pool_);
  }

  /// Lets time pass and runs `decide(pool, grants)` while the mutex is held. The grants go to the sink after that.
  template <class Decide>
  auto granting(Moment now, Decide decide) {
    PendingGrants grants(sink_);
    const std::lock_guard lock(mutex_);
    pool_.pass(now);
    return decide(pool_, grants);
  }

  /// Whatever makes room, time included, does it here: `change(pool)` runs while the mutex is held, and then the queue
  /// is served.
  template <class Change>
  auto free_room(Moment now, Change change) {
    return granting(now, [&](PoolState& pool, PendingGrants& grants) {
      if constexpr (std::is_void_v<std::invoke_result_t<Change, PoolState&>>) {
        change(pool);
        pool.serve(grants);
      } else {
        auto result = change(pool);
        pool.serve(grants);
        return result;
      }
    });
  }

 private:
  GrantSink* const sink_;
  std::mutex mutex_;
  PoolState pool_;
};

}  // namespace weir::balancer
