// Every file of balancer/ uses these words.
#pragma once

#include <cstddef>
#include <cstdint>

#include "metrics/moment.hpp"

namespace weir::balancer {

using metrics::Moment;
using Tokens = std::uint64_t;

/// Some requests, and the tokens of their prompts.
struct Work {
  std::size_t requests = 0;
  Tokens tokens = 0;

  void add(const Work& more) {
    requests += more.requests;
    tokens += more.tokens;
  }
};

/// A replica's place in its pool. It is stable while the replica is there; a place is used again when its replica is
/// gone.
using ReplicaIndex = std::uint32_t;

/// A pool never gives two replicas the same one.
using Serial = std::uint64_t;

/// A replica of a pool, and no other that gets its place later.
struct ReplicaKey {
  ReplicaIndex index = 0;
  Serial serial = 0;
  bool operator==(const ReplicaKey&) const = default;
};

}  // namespace weir::balancer
