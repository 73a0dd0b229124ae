// The judgments of a replica by its peers: whether its 4xx are its own fault, and whether failures in a row are.
// A Pool calls them under its mutex.
#pragma once

#include "balancer/failed_clients.hpp"
#include "balancer/health.hpp"
#include "balancer/replica_set.hpp"
#include "balancer/tokens.hpp"

namespace weir::balancer {

/// True if more than half of a replica's last answers are 4xx, and fewer than one in twenty of its peers'. A wrong
/// model, which answers in 2 ms, would draw all traffic; but a client whose requests are wrong may have come to it
/// alone.
bool is_odd(const ReplicaSet& replicas, const PoolReplica& suspect, Moment now);

/// Ejects a replica that is odd, once others have answered well what it had refused.
void eject_if_odd(const ReplicaSet& replicas, PoolReplica& suspect, Moment now);

/// Takes down what came of a client's request. Returns whether its replica is to blame, where that failed.
bool note_end(const ReplicaSet& replicas, PoolReplica& replica, Sign sign, const Caller& caller, Moment now);

}  // namespace weir::balancer
