// Whether a replica is asked for its token counts, and what its answers teach of that.
#pragma once

#include "metrics/vocabulary.hpp"
#include "metrics/wire/request/edits.hpp"
#include "proxy/exchange/answer_handler.hpp"
#include "proxy/fleet/snapshot.hpp"

namespace weir::proxy::exchange {

/// What this replica is asked to tell. One that tells its counts unasked keeps its `timings`, which go with the usage
/// event where usage is asked for.
metrics::wire::Ask ask_of(const fleet::Replica& replica, metrics::Api api);

/// True if the replica has taken the usage option in a request of this API before.
bool took_injection(const fleet::ReplicaState& replica, metrics::Api api);
void note_injection_taken(fleet::ReplicaState& replica, metrics::Api api);

/// The replica took the original of what it had refused: it was the usage option.
void disable_injection(const fleet::Replica& replica);

/// Notes whether the replica tells its counts unasked. One that no longer does, since another engine runs there now, is
/// asked again after one answer without them.
void learn_counts(fleet::ReplicaState& replica, metrics::Api api, const AttemptResult& result);

}  // namespace weir::proxy::exchange
