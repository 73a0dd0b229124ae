// The token of the admin listener ([admin] token): who has it may do all that this listener can.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weir::proxy::control {

/// Tells whether a request bears the token: one Authorization field, "Bearer TOKEN". The time it takes says nothing of
/// the token, not its length either.
bool bears_token(std::span<const std::string_view> authorization, const std::string& token);

}  // namespace weir::proxy::control
