#include "config/health.hpp"

#include "config/values.hpp"

namespace weir::config {

Health read_health(TableReader table, Health health) {
  table.read("path", health.path, &path_or_none);
  table.read("interval", health.interval, &time);
  table.read("timeout", health.timeout, &time);
  table.read("down_after", health.down_after, Whole<unsigned>{1, 1000});
  table.read("up_after", health.up_after, Whole<unsigned>{1, 1000});
  table.read("eject", health.eject, &flag);
  table.refuse_the_rest();
  return health;
}

}  // namespace weir::config
