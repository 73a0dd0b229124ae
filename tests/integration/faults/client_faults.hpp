// Plays one cell of the fault matrix whose fault is a client's, and checks its end.
#pragma once

#include "tests/integration/faults/replica_faults.hpp"

namespace weir::integration {

void play_clients_fault(const CellRun& run);

}  // namespace weir::integration
