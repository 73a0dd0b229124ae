// The invariants that always hold, each a function that throws Violation. The numbers are those of docs and failures.
#pragma once

#include "tests/integration/model/neighbours.hpp"
#include "tests/integration/model/stage.hpp"

namespace weir::model {

/// Checks the invariants that hold after each step: I1 to I4, I7 to I10. (I11 to I14 are looked at within a step: what
/// a stopped process has shown nothing of ends elsewhere; who comes back when told is served; a siege keeps nobody else
/// out; a dead machine is believed to hold nothing. I15 and I16 are looked at in steps of the pool "beside".)
void check_after_step(Stage& stage);
/// Checks the invariants that hold at rest: all of them, and I5, I6.
void check_at_rest(Stage& stage);

/// I1: who may enter enters, and nobody else.
void only_who_may_enters(Stage& stage);
/// I2: at the port weir speaks TLS if the settings say so, and plain HTTP if not.
void speaks_as_it_is_set(Stage& stage);
/// I3: a client's key is nowhere but in the client's request, a replica's key nowhere but at the replica.
void no_secret_is_elsewhere(Stage& stage, const Page& page);
/// I4: no more streams than a replica or the first pool may have, and none at one that is drained. (A key's limit is
/// looked at when streams begin.)
void limits_count(Stage& stage);
/// I5: books and buffers are empty, and there are no more descriptors than before the first request.
void books_are_empty(Stage& stage);
void descriptors_are_as_before(Stage& stage);
/// I6: each request that a client had answered has one line in the log with that status, and the metrics have the sums.
void log_is_what_clients_saw(Stage& stage);
/// I7: a process that is stopped and was out does not come back.
void nobody_stopped_is_in(Stage& stage, const Page& page);
/// I7: no replica is out whose machine was always well.
void nobody_well_is_out(Stage& stage, const Page& page);
/// I8: nobody waits while a replica that may take him is idle.
void nobody_waits_in_vain(Stage& stage);
/// I9: memory is within its bound.
void memory_is_bounded(Stage& stage);
/// I10: streams whose machine was always well are whole, and so are their beginnings; nobody else's failure is theirs.
void streams_are_whole(Stage& stage);

/// I15: what a replica does to one client, model or request changes nothing for the others whom it answers. `ill`: the
/// replicas whose answers do not count; `lost`: what each client may have lost with replicas that a request has ended.
void others_notice_nothing(const std::vector<Seen>& all, const std::set<std::string>& ill, std::size_t lost);

}  // namespace weir::model
