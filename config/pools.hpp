// Reads the [[pool]] and [[pool.replica]] tables of a settings file, and checks the rules that hold between them.
#pragma once

#include <vector>

#include "config/replica.hpp"
#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// The file's [health] and [engine].
struct Defaults {
  Health health;
  EngineReading engine;
  bool clients_have_keys = false;
};

/// Reads all pools and checks their rules. Names are unique in the file. Pools are tried in order, so it is an error if
/// an earlier pool takes all requests of a later pool or model. What a pool's own [health]
/// and [engine] do not set is as in `defaults`.
std::vector<Pool> read_pools(TableReader& file, ReplicaReading& replicas, const Defaults& defaults, Report& report);

/// Adds pools and their replicas to the report's listing.
void list_pools(const std::vector<Pool>& pools, ReplicaReading& replicas, Report& report);

}  // namespace weir::config
