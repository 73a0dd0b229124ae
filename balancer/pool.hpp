// A pool chooses a replica for each request and keeps the books of the work that its replicas have to do. A request
// comes to it for its offer, with its first token and at its end; one that waits may leave before. The pool is
// thread-safe: one mutex (pool_core.hpp) is held for a decision and never across I/O.
//
// A request that no replica may take now waits in the pool's queue (waiting_queue.hpp). Whatever makes room, time
// included, serves the queue before the mutex is given back, and hands the grants to the sink after it. While requests
// wait, a new one goes through the queue as well, so that it overtakes nobody whose turn it is.
//
// Time may arrive out of order, since callers read it before they get the mutex; the pool uses the latest time it was
// given.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "balancer/lease.hpp"
#include "balancer/placement.hpp"
#include "balancer/pool_core.hpp"
#include "balancer/pool_figures.hpp"
#include "balancer/pool_health.hpp"
#include "balancer/replica_spec.hpp"
#include "balancer/tokens.hpp"
#include "config/settings.hpp"
#include "metrics/wire/request/facts.hpp"

namespace weir::balancer {

class Pool final : public LeaseOwner {
 public:
  /// `seed` feeds ties and the random policies. Without a sink nobody waits.
  static std::shared_ptr<Pool> make(config::Policy policy, std::uint64_t seed,
                                    GrantSink* sink = nullptr);
  void set_limits(const PoolLimits& limits, Moment now);

  /// Chooses in another way from now on. The books stay.
  void set_policy(config::Policy policy);
  /// Counts what replicas hold of prompts from now on, or not. The other policies do not look at it, so it is off for
  /// them.
  void set_prefix_aware(bool aware);

  /// Splits the requests between the candidate's replicas and the others from now on, or gives them to all of them
  /// alike for nothing. With a share of 0 the candidate's replicas get no request, even while no other is up. Its
  /// counts go on until the split ends.
  void set_split(std::optional<double> share, Moment now);
  /// Returns the counts of the split; all zeros without one.
  SplitFigures split();
  /// Counts the streams of a split that were sent before that moment and have no first token yet, each once.
  void note_overdue(Moment sent_before);

  /// Replaces the set, which nothing else does. Replicas are matched by name and url. A replica that is no longer named
  /// takes no more requests, and gives its index back when its last lease has ended. Returns the index of each spec, in
  /// order.
  std::vector<ReplicaIndex> set_replicas(std::span<const ReplicaSpec> specs, Moment now);

  /// Chooses a replica and takes a lease on it. If none may take the request now, it waits, where it can.
  Offered offer(const PlacementRequest& placement, Moment now);
  /// The same for a request that cannot wait.
  Offered offer(const metrics::wire::RequestFacts& facts, Moment now, std::span<const Serial> tried = {}) {
    return offer(PlacementRequest{std::make_shared<const metrics::wire::RequestFacts>(facts), tried}, now);
  }
  /// Says that the client left or that the deadline passed. Returns what to tell the client; nothing if the request
  /// was not waiting any more: its grant is on the way and is to be taken.
  std::optional<Refused> leave(WaitTicket ticket, Moment now);
  /// True if a replica other than these is there that neither drains nor refuses connections.
  bool another_is_left(std::span<const Serial> tried, Serial beside);

  /// True if one more replica may go without leaving less than half of them.
  bool can_spare_one();

  PoolHealth& health() { return health_; }
  PoolFigures& figures() { return figures_; }

 private:
  Pool(config::Policy policy, std::uint64_t seed, GrantSink* sink);

  Tokens first_token(const LedgerEntry& entry, Moment now) override;
  void stalled(const LedgerEntry& entry) override;
  void leave_unread(const LedgerEntry& entry, bool unread) override;
  Concurrency end(LedgerEntry entry, const LeaseEnd& end, Moment now) override;

  PoolCore core_;
  PoolHealth health_{core_};
  PoolFigures figures_{core_};
};

}  // namespace weir::balancer
