// Reads the [[slo]] tables of a settings file: the objectives against which the requests of a pool are measured.
#pragma once

#include <vector>

#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// Reads all objectives. Names are unique in the file. Each objective names one of `pools` and has at least one
/// threshold.
std::vector<Slo> read_slos(TableReader& file, const std::vector<Pool>& pools, Report& report);

/// Adds objectives to the report's listing.
void list_slos(const std::vector<Slo>& slos, Report& report);

}  // namespace weir::config
