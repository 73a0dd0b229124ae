// The [[pool]] and [[pool.replica]] tables of a settings file, and the rules that hold between them.
#pragma once

#include <vector>

#include "config/sections.hpp"
#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// Reads all pools. Names are unique in the file; pools are tried in order, so a pool or a model that an earlier pool
/// takes away is an error; no replica may be one of weir's own listeners; and weir's key for a replica is not lent to
/// strangers unawares. `settings` holds what the other tables say.
std::vector<Pool> read_pools(TableReader& file, const std::vector<Listener>& listeners, const Settings& settings,
                             Report& report);

}  // namespace weir::config
