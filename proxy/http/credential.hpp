// The credential that a client shows, and where else one may stand in a request.
#pragma once

#include <string>
#include <string_view>

#include "proxy/http/head.hpp"

namespace weir::proxy::http {

/// Returns what stands behind `Bearer` in Authorization, else what stands in x-api-key; "" if there is neither. It
/// points into the head's bytes.
std::string_view credential_of(const RequestHead& head);

/// True for a field whose name says that it holds a credential or cookies.
bool is_credential(std::string_view field_name);

/// Returns the target without the parameters whose names say that they hold a credential. The order of the others
/// stays. Names are compared without regard to case, and as they are written: one with escapes is not known.
std::string without_credentials(std::string_view target);

}  // namespace weir::proxy::http
