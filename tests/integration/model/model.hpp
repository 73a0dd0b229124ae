// The settings as a plain value: the model beside weir. A step changes it first; then weir is told the same,
// and everything that weir does has to agree with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/integration/model/operation.hpp"

namespace weir::model {

/// Machines 0 to 5 are for pools, the next one is the shadow's, and those behind it are the pool's named "beside".
inline constexpr std::size_t machines_of_pools = 6;
inline constexpr std::size_t machine_of_shadow = machines_of_pools;
inline constexpr std::size_t first_beside = machine_of_shadow + 1, most_beside = 5;
/// Addresses behind the name that DNS answers.
inline constexpr unsigned addresses = 3;

struct Replica {
  std::string name;
  std::size_t machine = 0;
  unsigned most = 0;  ///< The requests at a time; 0: any number.
  bool drained = false;
};

/// Returns the i-th replica of the pool "beside".
inline Replica beside(std::size_t i) { return {.name = "b" + std::to_string(i), .machine = first_beside + i}; }

struct Key {
  std::string name;
  unsigned most = 0;    ///< The requests at a time; 0: any number.
  bool narrow = false;  ///< The key may use the second pool's model alone.
  std::string secret() const { return "secret-of-" + name; }
};

struct Model {
  Model();
  std::string pool = "chat";
  unsigned pool_most = 0;              ///< The requests that the first pool has at a time; 0: any number.
  std::vector<Replica> first, second;  ///< The second pool is not there if it is empty.
  std::vector<Key> keys;
  std::vector<std::string> revoked;  ///< Secrets that were good once.
  bool has_shadow = false, needs_keys = true, speaks_tls = false, renewed = false;
  unsigned policy = 0, queue = 0;
  std::size_t beside = most_beside - 1;  ///< The replicas of the pool "beside".
  unsigned given = 0;             ///< Names are given once only.
  bool replicas_changed = false;  ///< Counters of some replica have begun anew, or are gone.

  /// Takes a step that changes settings. Returns false if it changes nothing, or is no such step.
  bool apply(const Operation& step);
  /// Returns the a-th of all replicas that an operator sees, and those of both pools in order.
  Replica& replica(unsigned a);
  std::vector<const Replica*> replicas() const;
  /// Returns the a-th key.
  const Key& key(unsigned a) const { return keys[a % keys.size()]; }
  std::string new_name(const char* letter) { return letter + std::to_string(given++); }

 private:
  std::size_t free_machine() const;
  bool change_replicas(const Operation& step);
  bool change_keys(const Operation& step);
};

/// The models of requests by their number. The third is served behind a name that DNS answers.
inline std::string model_name(unsigned b) { return std::string(1, "mnd"[b % 3]); }

}  // namespace weir::model
