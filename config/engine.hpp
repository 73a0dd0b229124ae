// Reads [engine] and [pool.engine], and the names in [engine.names].
#pragma once

#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// Keys that the table does not set are as in `otherwise`. The names stand in the file's table alone.
EngineReading read_pool_engine(TableReader table, EngineReading otherwise);

/// Reads the file's [engine]. The names in it go into `names`.
EngineReading read_engine(const toml::table& source, Report& report, EngineNames& names);

}  // namespace weir::config
