// The judgment of silent replicas. Silence makes a replica suspect, and witnesses are asked (suspicion.hpp). A replica
// hangs if a witness confirms a silence that its books do not explain, if neither its door nor its page answers for 10
// s and for as long as its books explain once, if its probes have failed so often that it is down, or if nothing
// explains a silence as long as this. An answer that is not streamed shows nothing while it is made: where the engine's
// counters do not stand still, it is given many times what the longest output that it may have takes.
//
// A Pool calls it under its mutex, for each replica and often.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "balancer/pool_replica.hpp"
#include "balancer/tokens.hpp"

namespace weir::balancer::silence {

/// The least silence of a replica's streams that makes it suspect. The suspicion stands, so that one witness is enough
/// and others are preferred, when the silence is four times what its books predict; or when the replica has shown
/// nothing for as long as a request that is not streamed was to take.
inline constexpr double least_suspect_seconds = 5, suspicion_factor = 4;
/// The least silence that convicts a replica that answers its probes; the silence has to be eight times what its books
/// predict, too: engines compile for 40 s. A request that is not streamed counts with the longest output that it may
/// have, and is given longer: another pool or another weir may have an answer made there, or a model loaded.
inline constexpr double least_convicting_seconds = 60, least_convicting_unstreamed_seconds = 300;
inline constexpr double conviction_factor = 8;
/// Before a replica's rates are known, its books predict with these, in tokens per second.
inline constexpr double slowest_prefill = 100, slowest_decode = 20;

/// Begins and ends the suspicion of a replica. Returns a clause that says why, if the replica hangs.
std::optional<std::string> judge(PoolReplica& replica, Moment now);

/// Puts out a replica that hangs. Requests that are there count in no silence any more.
void convict(PoolReplica& replica, std::string_view reason, Moment now);

/// True if an answer, or a part of one, came within the last seconds.
bool lives(PoolReplica& replica, Moment now);

}  // namespace weir::balancer::silence
