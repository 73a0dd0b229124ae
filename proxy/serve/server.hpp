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

/// Returns how many CPUs this process may use: affinity, and the cgroup's quota rounded up. It is at least 1.
unsigned allowed_cpus();

}  // namespace weir::proxy::serve
