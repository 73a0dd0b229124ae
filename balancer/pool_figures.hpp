// The figures in a pool's books, for scrapes, operators and drains. Like its pool, which owns it, it is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "balancer/pool_core.hpp"
#include "balancer/prefix/replica_prefixes.hpp"
#include "balancer/tokens.hpp"

namespace weir::balancer {

struct ReplicaLoad {
  ReplicaKey key;
  std::string name;
  Tokens prefill_left = 0, decode_left = 0, resident = 0;
  std::uint32_t in_flight = 0;
  double oldest_unanswered_seconds = 0;
  double silent_seconds = 0;  ///< No sign of life for so long while a stream was to get tokens: TokenLedger's.
  double busy_seconds = 0, prefill_seconds = 0, decode_seconds = 0;  ///< Integrals since the start.
  TimeModel time;               ///< The times that it is taken to need.
  std::optional<PassedOver> passed_over;  ///< Within the last ten seconds, while it is idle.
  std::string passed_over_for;            ///< The name of the replica that was chosen.
  bool prefix_aware = false;    ///< The pool looks at what its replicas hold of prompts.
  PrefixSums prefix;
  double prefix_believed = 1;   ///< The share of what is predicted that comes true.
  Tokens prefix_held = 0;       ///< Tokens that the replica's prefix cache is believed to hold,
  Tokens prefix_capacity = 0;   ///< and to hold at most.
  /// Counts by reason the choices that lacked something the policy needs. Every reason is listed, at 0 too.
  std::vector<std::pair<std::string_view, std::uint64_t>> fallbacks;
};

struct QueueFigures {
  std::size_t waiting = 0;
  Tokens waiting_tokens = 0;
  std::size_t waiting_bytes = 0;
  double oldest_seconds = 0;
};

struct PoolLoad {
  std::uint32_t in_flight = 0;  ///< On all replicas, those that are leaving included.
  QueueFigures queue;
  std::vector<ReplicaLoad> replicas;  ///< Replicas that are leaving included.

  /// Returns the load of a replica; all zeros if it is not among these.
  ReplicaLoad of(const ReplicaKey& replica) const;
};

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

}  // namespace weir::balancer
