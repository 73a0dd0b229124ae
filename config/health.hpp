// Reads [health] and [pool.health], which have the same keys.
#pragma once

#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// Keys that the table does not set are as in `otherwise`.
Health read_health(TableReader table, Health otherwise);

}  // namespace weir::config
