// How weir itself stands, for /api/replicas: whether it drains, whether the last reload failed, and what has become of
// the request log's lines.
#pragma once

#include <string>
#include <vector>

#include "metrics/record/request_log.hpp"

namespace weir::proxy::control {

struct Standing {
  bool draining = false;
  std::vector<std::string> reload_errors{};  ///< The last reload's, if it failed.
  metrics::record::RequestLog::Account log{};
  bool log_loses = false;  ///< Lines were lost, and none was written since.
};

}  // namespace weir::proxy::control
