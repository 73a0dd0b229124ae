// The words that every file of balancer/ shares.
#pragma once

#include <cstdint>

#include "metrics/moment.hpp"

namespace weir::balancer {

using metrics::Moment;
using Tokens = std::uint64_t;

/// A replica's place in its pool: stable while the program runs, never given to another replica.
using ReplicaIndex = std::uint32_t;

}  // namespace weir::balancer
