// Answers of the admin listener below /api/, as JSON, and to POST /-/reload.
#pragma once

#include <string>
#include <string_view>

#include "metrics/moment.hpp"
#include "proxy/control/reload.hpp"
#include "proxy/fleet/fleet.hpp"

namespace weir::proxy::control {

struct ApiAnswer {
  unsigned status = 200;
  std::string body;
  std::string content_type = "application/json";
};

/// {"error":{"message","type","code"}}
ApiAnswer api_error(unsigned status, std::string_view code, const std::string& message);

/// Drains a replica, or ends that; one that is ejected comes back then, on probation. The body is empty or a JSON
/// object which may have "force".
ApiAnswer drain_answer(fleet::Fleet& fleet, std::string_view name, bool drains, std::string_view body,
                       metrics::Moment now);

/// {"settings":[{"name","within","keys":{}}],"overridden":["metrics.listen"]}: the settings in use, without secrets,
/// and which of them the command line set.
ApiAnswer settings_answer(const config::Settings& settings);

/// {"changes":[...]}, or an error with {"errors":[...]}.
ApiAnswer reload_answer(const Reload::Result& result);

}  // namespace weir::proxy::control
