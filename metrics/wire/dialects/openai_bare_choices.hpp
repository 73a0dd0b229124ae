// Tells whether the choices of an OpenAI event bring anything. It is called only for the few events that have a usage
// object and no token.
#pragma once

#include <string_view>

namespace weir::metrics::wire {

/// True if every choice is empty: it has no text, no role, no finish, and no member that weir does not know. `data` is
/// as for read_event.
bool choices_bring_nothing(std::string_view data);

}  // namespace weir::metrics::wire
