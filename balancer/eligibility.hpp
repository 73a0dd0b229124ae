// Which replicas may take a request at all: the same for every policy, which then chooses among them.
//
// In this order: those whose context is too short never; those with max_in_flight requests not now; those the request
// has been to only if there is no other; those whose KV cache it would overfill only if all would (one that holds
// nothing takes a request of any size).
#pragma once

#include <cstdint>
#include <vector>

#include "balancer/replica_view.hpp"
#include "balancer/tokens.hpp"

namespace weir::balancer {

struct Demand {
  Tokens prompt = 0;
  Tokens context = 0;  ///< What one sequence of it will need for sure.
};

enum class Eligibility : std::uint8_t {
  some,
  kv_full,     ///< All that are left are beyond their kv_tokens with it.
  no_replica,  ///< There was none to begin with.
  too_long,    ///< No replica can ever take it.
  busy,        ///< None can take it now.
};

/// Leaves in `replicas` those that may take it, in their order. For some and kv_full there is at least one.
Eligibility narrow(std::vector<ReplicaView>& replicas, const Demand& demand);

}  // namespace weir::balancer
