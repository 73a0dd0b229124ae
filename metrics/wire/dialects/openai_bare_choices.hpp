// Tells whether the choices of an OpenAI event bring anything. It is called only for the few events that bring no token
// and finish no choice.
#pragma once

#include <string_view>

namespace weir::metrics::wire {

/// True if every choice is empty: it has no text, no role, no finish, and no member that weir does not know. With
/// `but_a_role` it may have a role. `data` is as for read_event.
bool choices_bring_nothing(std::string_view data, bool but_a_role = false);

}  // namespace weir::metrics::wire
