// Reads [health] and [engine], and what a pool has in place of them.
#pragma once

#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// Keys that the table does not set are as in `otherwise`.
Health read_health(TableReader table, Health otherwise);

/// Likewise. An engine's page is read as often as it is probed, and has as much time.
EngineReading read_engine(TableReader table, const Health& health, EngineReading otherwise);

}  // namespace weir::config
