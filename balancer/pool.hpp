// A pool chooses a replica for each request, and keeps the books of its replicas' work. A request
// comes to it for its offer, with its first token and at its end; one that waits may leave before. The pool is
// thread-safe: one mutex (pool_state.hpp) is held for a decision and never across I/O.
//
// A request that no replica may take now waits in the pool's queue (waiting_queue.hpp). Whatever makes room, time
// included, serves the queue before the mutex is given back, and hands the grants to the sink after it. While requests
// wait, a new one goes through the queue as well, so that it overtakes nobody whose turn it is.
//
// Time may arrive out of order, since callers read it before they get the mutex; the pool uses the latest time it was
// given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "balancer/placement.hpp"
#include "balancer/pool_health.hpp"
#include "balancer/pool_state.hpp"
#include "balancer/prefix/replica_prefixes.hpp"
#include "balancer/replica_view.hpp"
#include "balancer/tokens.hpp"
#include "config/settings.hpp"

namespace weir::balancer {

struct ReplicaLoad : Gauges, TokenLedger::Integrals {
  ReplicaKey key;
  std::string name;
  double oldest_unanswered_seconds = 0;
  double silent_seconds = 0;  ///< No sign of life for so long while a stream was to get tokens: TokenLedger's.
  TimeModel time;             ///< The times that it is taken to need.
  std::optional<PassedOver> passed_over;  ///< Within the last ten seconds, while it is idle.
  std::string passed_over_for;            ///< The name of the replica that was chosen.
  bool prefix_aware = false;              ///< The pool looks at what its replicas hold of prompts.
  PrefixSums prefix;
  double prefix_believed = 1;  ///< The share of what is predicted that comes true.
  Tokens prefix_held = 0;      ///< Tokens that the replica's prefix cache is believed to hold,
  Tokens prefix_capacity = 0;  ///< and to hold at most.
  /// Counts by reason the choices that lacked something the policy needs. Every reason is listed, at 0 too.
  std::vector<std::pair<std::string_view, std::uint64_t>> fallbacks;
};

struct PoolLoad {
  std::uint32_t in_flight = 0;  ///< On all replicas, those that are leaving included.
  QueueFigures queue;
  std::vector<ReplicaLoad> replicas;  ///< Replicas that are leaving included.

  /// Returns the load of a replica; all zeros if it is not among these.
  ReplicaLoad of(const ReplicaKey& replica) const;
};

/// The figures in a pool's books, for scrapes, operators and drains. Like its pool, which owns it, it is thread-safe.
class PoolFigures {
 public:
  explicit PoolFigures(PoolCore& core) : core_(core) {}

  /// Returns the load of the whole pool at one moment, with one lock.
  PoolLoad load(Moment now);
  QueueFigures queue(Moment now);
  /// Returns how many requests are on all replicas.
  std::uint32_t in_flight() const;
  /// Returns how many requests are on the replica. 0 for one that is gone.
  std::uint32_t in_flight(const ReplicaKey& replica) const;
  /// Returns all zeros for a replica that is gone, whoever has its index now.
  ReplicaLoad load(const ReplicaKey& replica, Moment now);
  /// Returns the load of whoever has this index now: for those who never take a replica out.
  ReplicaLoad load(ReplicaIndex replica, Moment now) { return load(key(replica), now); }
  ReplicaKey key(ReplicaIndex replica) const;
  /// True if the pool names a replica with this identity: see PoolReplica.
  bool has(std::uint64_t identity);

 private:
  PoolCore& core_;
};

class Pool final : public std::enable_shared_from_this<Pool> {
 public:
  /// `seed` feeds ties and the random policies. Without a sink nobody waits.
  static std::shared_ptr<Pool> make(config::Policy policy, std::uint64_t seed, GrantSink* sink = nullptr);
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

  // A lease tells what happens to its request.
  friend class Lease;
  /// Returns the output tokens that the lease holds in addition from now on.
  Tokens first_token(const LedgerEntry& entry, Moment now);
  void stalled(const LedgerEntry& entry);
  void leave_unread(const LedgerEntry& entry, bool unread);
  /// Takes the entry back.
  Concurrency end(LedgerEntry entry, const LeaseEnd& end, Moment now);

  PoolCore core_;
  PoolHealth health_{core_};
  PoolFigures figures_{core_};
};

}  // namespace weir::balancer
