// Plays one cell of the fault matrix, and checks its end.
#pragma once

#include "tests/integration/faults/cell.hpp"
#include "tests/integration/faults/stage.hpp"

namespace weir::integration {

enum class Company : std::uint8_t { alone, beside };  ///< Beside means that a second replica is well.

struct CellRun {
  Cell cell;
  Company company;
  Transport transport;
};

void play_replicas_fault(const CellRun& run);
void play_clients_fault(const CellRun& run);

}  // namespace weir::integration
