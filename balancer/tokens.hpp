// Every file of balancer/ uses these words.
#pragma once

#include <cstdint>

#include "metrics/moment.hpp"

namespace weir::balancer {

using metrics::Moment;
using Tokens = std::uint64_t;

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
