// Tells a replica's FailureNotes how an attempt on it ended, and logs what they answer.
#pragma once

#include "proxy/exchange/attempt.hpp"
#include "proxy/fleet/fleet.hpp"

namespace weir::proxy::exchange {

/// Why an attempt that ended so speaks against the replica; "" where it does not: it went well, or says nothing.
/// `status` 0: no head was read.
std::string failure_reason(metrics::Outcome outcome, unsigned status);

/// An attempt on `replica` that was connected to is over. All here: any loop's thread.
void note_attempt(const fleet::ReplicaRuntime& replica, const AttemptResult& result, Moment now);
/// It could not be connected to, by its own fault: an error as net::connect_error_text() takes.
void note_unconnected(const fleet::ReplicaRuntime& replica, int error, Moment now);
/// weir lacked something for a connection (see net::is_own_want), and has it again.
void note_own_want(fleet::FailureNotes& own, int error, Moment now);
void note_own_return(fleet::FailureNotes& own, Moment now);

}  // namespace weir::proxy::exchange
