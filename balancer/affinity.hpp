// Ties of requests to replicas: homes of stored state, sessions, and the hashing that ranks replicas.
//
// Homes remember at which replica the state lies that a request names: a stored response, a file, a batch. Only ids
// that a replica handed out are noted, so no client can fill the memory with ids that it makes up.
//
// All pools share one, which outlives reloads, in plain memory. An id that was not used for `lasting` is forgotten;
// when the memory is full, the id that was used least recently goes. A call costs O(1) under one mutex, and reads no
// clock. Any thread may call it.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "metrics/moment.hpp"

namespace weir::balancer {

struct Home {
  std::uint64_t replica = 0;  ///< PoolReplica::identity.
  std::uint64_t number = 0;   ///< By this a split drew the side of the request that made the state: see Split.
  bool operator==(const Home&) const = default;
};

class Homes {
 public:
  static constexpr std::size_t most = 65'536;
  static constexpr std::chrono::hours lasting{24};

  /// `id` is the hash of an id (metrics/names.hpp).
  void note(std::uint64_t id, const Home& home, metrics::Moment now);
  /// Counts as a use of the id.
  std::optional<Home> find(std::uint64_t id, metrics::Moment now);
  std::size_t size() const;

 private:
  struct Noted {
    std::uint64_t id;
    Home home;
    metrics::Moment used;
  };
  using Order = std::list<Noted>;

  void use(Order::iterator noted, metrics::Moment now);
  void drop_last();

  mutable std::mutex mutex_;
  Order order_;  ///< The id that was used last is in front.
  std::unordered_map<std::uint64_t, Order::iterator> by_id_;
};

/// The memory for the ids that one replica hands out in one answer. Blank: none are noted.
struct HandedOut {
  Homes* homes = nullptr;
  Home home{};
};

/// Ties of a request to replicas. 0: none.
struct Ties {
  std::uint64_t home = 0;     ///< This replica has the state that the request names. The request waits for it.
  std::uint64_t pin = 0;      ///< The request names state by an id that its client made up: one replica gets all such.
  std::uint64_t session = 0;  ///< Requests of a session go to one replica, as long as its load is near the others'.
  /// Some replica has the state, and nobody knows which: the request never goes back to one that had it.
  bool seeks = false;
};

// Rendezvous hashing (Thaler and Ravishankar 1998) with weights (Schindelhauer and Schomaker 2005): each name ranks the
// replicas in an order of its own. A replica that comes or goes moves only the names that have it first. Header only;
// includes no other file of weir.

/// Returns the rank of a replica for a name, above 0; the highest is first. Of many names a replica is first for a
/// share that is proportional to its weight. Both numbers are hashes.
inline double rendezvous(std::uint64_t name, std::uint64_t replica, double weight) {
  std::uint64_t mixed = name ^ (replica + 0x9e3779b97f4a7c15 + (name << 6U) + (name >> 2U));
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9;  // SplitMix64's finish.
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111eb;
  mixed ^= mixed >> 31U;
  const double fraction = (static_cast<double>(mixed >> 11U) + 0.5) * 0x1p-53;  // Neither 0 nor 1.
  return -weight / std::log(fraction);
}

}  // namespace weir::balancer
