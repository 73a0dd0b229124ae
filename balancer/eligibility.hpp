// This tells which replicas may take a request at all. It is the same for every policy, which then chooses among them.
//
// The rules apply in this order. A replica whose context is too short never may. A replica with max_in_flight requests
// may not now. A replica that already had this request may only if there is no other. A replica whose KV cache the
// request would overfill may only if it would overfill all; a replica that holds nothing takes a request of any size.
#pragma once

#include <cstdint>
#include <vector>

#include "balancer/replica_view.hpp"
#include "balancer/tokens.hpp"

namespace weir::balancer {

struct Demand {
  Tokens prompt = 0;
  Tokens context = 0;  ///< One sequence of the request surely needs so much.
};

enum class Eligibility : std::uint8_t {
  some,
  kv_full,     ///< The request would take every replica that is left beyond its kv_tokens.
  no_replica,  ///< The pool has no replica.
  too_long,    ///< No replica can ever take it.
  busy,        ///< None can take it now.
};

/// Leaves in `replicas` those that may take the request, in their order. For some and kv_full there is at least one.
Eligibility narrow(std::vector<ReplicaView>& replicas, const Demand& demand);

}  // namespace weir::balancer
