// The requests that were to be mirrored and were sent to no shadow, by reason: the drop_reason of the request log.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace weir::metrics::compare::sides {

using Drops = std::map<std::string, std::uint64_t>;

/// "1800 requests: max_in_flight 1200, primary_waits 600", the most frequent reason first.
std::string counts_text(const Drops& drops);

/// Returns a sentence that says what to change about the most frequent reason; "" if there is none.
std::string help_against(const Drops& drops);

}  // namespace weir::metrics::compare::sides
