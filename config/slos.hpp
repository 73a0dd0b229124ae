// The [[slo]] tables of a settings file: what the requests of a pool are to be measured against.
#pragma once

#include <vector>

#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// Reads all objectives. Names are unique in the file, each is about one of `pools` and has at least one threshold.
std::vector<Slo> read_slos(TableReader& file, const std::vector<Pool>& pools, Report& report);

}  // namespace weir::config
