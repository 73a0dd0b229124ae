// Reads the tables of TLS: [server.tls], [[server.tls.more]] and a replica's tls. Each file that they name is read and
// judged, so that a wrong one is found with the settings, at its line.
#pragma once

#include <string>

#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// Reads [server.tls] of [server]; there is none without the table.
void read_server_tls(TableReader& server, Server& settings, Report& report);

/// Reads `tls` of the replica with this title. It is refused where the url does not say https.
void read_replica_tls(TableReader& replica, const std::string& title, Replica& settings, Report& report);

}  // namespace weir::config
