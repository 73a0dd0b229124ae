#include "config/health.hpp"

#include "config/values.hpp"

namespace weir::config {

Health read_health(TableReader table, Health health) {
  table.read("path", health.path, path_or_none,
             "Path of the probe (`GET`); a 2xx passes. 401, 403, 404 or 405: the replica is alive and has no such "
             "path, and from then on the probe only connects. `\"\"`: it only connects.");
  table.read("interval", health.interval, time,
             "Time between two probes of a replica, a fifth more or less at random. With `down_after` it bounds how "
             "long a dead host goes unnoticed.");
  table.read("timeout", health.timeout, time,
             "How long a probe may take. A probe without an answer says nothing while the replica gives tokens.");
  table.read("down_after", health.down_after, Whole<unsigned>{1, 1000},
             "Failed probes in a row that take a replica out. A refused connection does so at once.");
  table.read("up_after", health.up_after, Whole<unsigned>{1, 1000},
             "Passed probes in a row that bring it back. The replica then starts slowly.");
  table.read("eject", health.eject, flag,
             "Failing requests eject a replica too: five failures in a row, connections not taken in time, errors "
             "that its peers do not have, or a silence that a probe confirms. 10 s at first, twice as long each time "
             "up to 5 minutes, never more than half of a pool.");
  table.refuse_the_rest();
  return health;
}

}  // namespace weir::config
