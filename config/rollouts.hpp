// Reads the [[rollout]] tables of a settings file, and checks the rules that hold between them, the pools and the
// shadows.
#pragma once

#include <string>
#include <vector>

#include "config/pools.hpp"
#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// Reads all rollouts. `settings` has the pools, objectives and shadows, which they name, and [admin]. Names are unique
/// in the file, a pool has one rollout, and both the candidate and the stable side have a replica.
std::vector<Rollout> read_rollouts(TableReader& file, const Settings& settings, Report& report);

/// Adds the rollouts of these settings to the report's listing.
void list_rollouts(const Settings& settings, Report& report);

/// Returns a share as the settings write it: "5%".
std::string percent(double share);
/// Returns a step as the settings write it: "shadow 20m", "5% 10m", "100%".
std::string to_text(const Rollout::Step& step);

// Reads the [[shadow]] tables of a settings file, and checks the rules that hold between them and the pools.

std::vector<Shadow> read_shadows(TableReader& file, ReplicaReading& replicas, const std::vector<Pool>& pools,
                                 const Defaults& defaults, Report& report);

/// Adds shadows and their replicas to the report's listing.
void list_shadows(const std::vector<Shadow>& shadows, ReplicaReading& replicas, Report& report);

}  // namespace weir::config
