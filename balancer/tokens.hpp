// The words that every file of balancer/ shares.
#pragma once

#include <cstdint>

#include "metrics/moment.hpp"

namespace weir::balancer {

using metrics::Moment;
using Tokens = std::uint64_t;

/// A replica's place in its pool. Another replica gets it once this one is gone and its last lease has ended.
using ReplicaIndex = std::uint32_t;

/// A replica of a pool, and no other that gets its place later.
struct ReplicaKey {
  ReplicaIndex index = 0;
  std::uint64_t serial = 0;
};

}  // namespace weir::balancer
