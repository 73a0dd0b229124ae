#include "config/health.hpp"

#include "config/values.hpp"

namespace weir::config {

Health read_health(TableReader table, Health health) {
  table.read("path", health.path, path_or_none,
             "Path of the probe (`GET`); a 2xx passes. 401, 403, 404 or 405: the replica is alive and has no such "
             "path, and from then on the probe only connects. `\"\"`: it only connects.");
  table.read("interval", health.interval, time,
             "Time between two probes of a replica, and between two readings of its metrics page, a fifth more or less "
             "at random. Three failed probes in a row take a replica out, a refused connection at once; one that "
             "passes brings it back, and it starts slowly.");
  table.read("timeout", health.timeout, time,
             "How long a probe or a page may take. A probe without an answer says nothing while the replica gives "
             "tokens.");
  table.read("eject", health.eject, flag,
             "Failing requests eject a replica too: five failures in a row, connections not taken in time, errors "
             "that its peers do not have, or a silence that a probe confirms. 10 s at first, twice as long each time "
             "up to 5 minutes, never more than half of a pool.");
  table.refuse_the_rest();
  return health;
}

EngineReading read_engine(TableReader table, const Health& health, EngineReading engine) {
  table.read("metrics_path", engine.metrics_path, path_or_none,
             "The engine's metrics page in Prometheus' text format, at most 1 MiB. A slow page is read less often, and "
             "figures older than two intervals are unknown. `\"\"`: weir asks the replica for nothing about itself.");
  table.refuse_the_rest();
  engine.interval = health.interval;
  engine.timeout = health.timeout;
  return engine;
}

}  // namespace weir::config
