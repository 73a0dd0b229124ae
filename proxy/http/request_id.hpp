// Which ids weir takes over from a client.
#pragma once

#include <optional>
#include <string_view>

namespace weir::proxy::http {

/// The client's x-request-id if it is 1 to 128 of [A-Za-z0-9._-], else nothing.
std::optional<std::string_view> valid_request_id(std::string_view value);

}  // namespace weir::proxy::http
