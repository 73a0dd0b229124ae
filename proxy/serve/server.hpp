// The program at work: stream loops on threads of their own, and the control thread, which accepts, drains, resolves
// names and answers scrapes.
#pragma once

#include <string>

#include "config/settings.hpp"

namespace weir::proxy::serve {

/// Serves until a signal ends it. TERM and INT drain (limits.drain_delay, limits.drain); a second one stops at once.
/// USR1 and HUP open the request log anew. Returns the program's exit status: 0, or 1 with a sentence in the log if it
/// cannot listen on an address or open the request log.
int serve(const config::Settings& settings, const std::string& version);

}  // namespace weir::proxy::serve
