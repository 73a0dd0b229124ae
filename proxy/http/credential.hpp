// The credential that a client shows.
#pragma once

#include <string_view>

#include "proxy/http/head.hpp"

namespace weir::proxy::http {

/// Returns what stands behind `Bearer` in Authorization, else what stands in x-api-key; "" if there is neither. It
/// points into the head's bytes.
std::string_view credential_of(const RequestHead& head);

}  // namespace weir::proxy::http
