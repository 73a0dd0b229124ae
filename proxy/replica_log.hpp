// Tells a replica's FailureNotes how an attempt on it ended, and logs what they answer.
#pragma once

#include "proxy/fleet.hpp"
#include "proxy/relay_machine.hpp"

namespace weir::proxy {

/// Why an attempt that ended so speaks against the replica; "" where it does not: it went well, or says nothing.
/// `status` 0: no head was read.
std::string failure_reason(metrics::Outcome outcome, unsigned status);

/// An attempt on `replica` is over. `connect_error`: of Relay, 0 where it was connected to. Any loop's thread.
void note_attempt(ReplicaRuntime& replica, const RelayMachine& machine, int connect_error, Moment now);

}  // namespace weir::proxy
