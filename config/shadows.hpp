// Reads the [[shadow]] tables of a settings file, and checks the rules that hold between them and the pools.
#pragma once

#include <vector>

#include "config/pools.hpp"
#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

std::vector<Shadow> read_shadows(TableReader& file, ReplicaReading& replicas, const std::vector<Pool>& pools,
                                 const Defaults& defaults, Report& report);

/// Adds shadows and their replicas to the report's listing.
void list_shadows(const std::vector<Shadow>& shadows, ReplicaReading& replicas, Report& report);

}  // namespace weir::config
