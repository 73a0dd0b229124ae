// This tells which replicas may take a request at all. It is the same for every policy, which then chooses among them.
//
// The rules apply in this order. A replica whose context is too short never may, if the settings say so; if its engine
// said so, it gives way to one whose context is long enough. A replica with max_in_flight requests may not now. Any
// other replica gives way only to replicas that are better off: one that refuses connections; one that already had this
// request; one that is out; one that has said that it is full; one that starts and holds all that it may; one whose KV
// cache the request would overfill (a replica that holds nothing takes a request of any size).
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

struct Narrowed {
  Eligibility eligibility;
  bool panic = false;  ///< All that are left are out. One of them is tried, because what put them out may be wrong.
};

/// Leaves in `replicas` those that may take the request, in their order. For some and kv_full there is at least one.
Narrowed narrow(std::vector<ReplicaView>& replicas, const Demand& demand);

}  // namespace weir::balancer
