// Tells what ties a request to a replica: state that a replica keeps under an id, or a session.
#pragma once

#include <cstdint>

#include "balancer/homes.hpp"
#include "balancer/story/story.hpp"
#include "proxy/exchange/client_request.hpp"

namespace weir::proxy::exchange {

/// Returns the hash of the id, handed out by a replica, that the request is about: of a path, of the response before,
/// or of a batch's file. 0: none.
std::uint64_t state_of(const ClientMessage& message);

/// Sets the ties, the state and the lot of a request, and whether its answer has an id to note. A lot of 0 is left for
/// its conversation. `lot_key` is secret: a client that knew a lot could choose its side of a split.
void set_ties(balancer::story::Story::Request& about, balancer::Homes& homes, const ClientMessage& message,
              const ClientIdentity& client, const fleet::PoolRuntime& pool, const metrics::SipKey& lot_key);

/// Returns the pool in which the state lies that the request is about; null where nobody knows.
const fleet::PoolRuntime* pool_of_state(const fleet::Snapshot& snapshot, balancer::Homes& homes,
                                        const ClientMessage& message);

}  // namespace weir::proxy::exchange
