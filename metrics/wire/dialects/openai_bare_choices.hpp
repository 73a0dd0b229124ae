// Whether the choices of an OpenAI event bring anything: asked of the few events that have a usage object and no token.
#pragma once

#include <string_view>

namespace weir::metrics::wire {

/// No choice has anything in it: neither text nor role nor finish, nor what weir does not know. `data` as read_event's.
bool choices_bring_nothing(std::string_view data);

}  // namespace weir::metrics::wire
