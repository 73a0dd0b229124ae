// Tells a replica's FailureNotes how an attempt on it ended, and logs what they answer.
#pragma once

#include <atomic>
#include <string>

#include "balancer/story/attempt.hpp"
#include "proxy/fleet/fleet.hpp"

namespace weir::proxy::exchange {

using metrics::Moment;

/// Returns why an attempt that ended so speaks against the replica; "" if it does not, because it went well or shows
/// nothing. A `status` of 0 means that no head was read.
std::string failure_reason(metrics::Outcome outcome, unsigned status);

/// Notes that an attempt on a connected `replica` has ended. Any loop's thread may call the functions here.
void note_attempt(const fleet::Replica& replica, const balancer::story::AttemptOver& over, Moment now);
/// Notes that weir could not connect to it, by the replica's own fault. `error` is as for net::connect_error_text().
void note_unconnected(const fleet::Replica& replica, int error, Moment now);
/// Notes that weir lacked something for a connection (see net::is_local_shortage), or has it again.
void note_local_shortage(fleet::FailureNotes& shortages, int error, Moment now);
/// Notes that a request has lost its second replica, `replica`. A line a minute tells of it.
void note_poison(std::atomic<Moment>& last_line, const std::string& request, const std::string& replica, Moment now);
/// Notes that the replica refuses the usage option.
void note_option_refused(const fleet::Replica& replica);
void note_local_recovery(fleet::FailureNotes& shortages, Moment now);

}  // namespace weir::proxy::exchange
