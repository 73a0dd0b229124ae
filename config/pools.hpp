// Reads the [[pool]] and [[pool.replica]] tables of a settings file, and checks the rules that hold between them.
#pragma once

#include <vector>

#include "config/sections.hpp"
#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// Reads all pools and checks their rules. Names are unique in the file. Pools are tried in order, so it is an error if
/// an earlier pool takes all requests of a later pool or model. No replica may be one of weir's own listeners. weir's
/// key for a replica must not be lent to strangers unawares. `settings` holds what the other tables say, and takes
/// the names in [engine.names].
std::vector<Pool> read_pools(TableReader& file, const std::vector<Listener>& listeners, Settings& settings,
                             Report& report);

}  // namespace weir::config
