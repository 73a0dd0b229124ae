// The ways in which a replica of the fault matrix treats a request badly.
#pragma once

#include "tests/integration/faults/cell.hpp"
#include "tests/integration/faults/stage.hpp"

namespace weir::integration {

struct Strikes {
  Stage::Strike at_head = {};  ///< Once only the head has been read.
  Stage::Strike whole = {};    ///< Once the request is there.
};

/// Returns how a replica commits a fault of its own at this phase; nothing where that is no matter of an exchange.
Strikes strikes_of(Fault fault, Phase phase);

/// Returns how a replica lets a client's fault come: it has the request so far, and waits for weir to close.
Strikes waits_for_close(Phase phase);

/// Returns how a replica answers a client that ends its direction meanwhile: the client has each event before the next
/// one is sent, so that weir has seen that end before the last.
Strikes answers_step_by_step(Phase phase);

}  // namespace weir::integration
