// weir's name in Via (RFC 9110, 7.6.3), by which it knows a request that has come back to it. Each process has a name
// of its own, which says nothing of its host. Any thread may use it.
#pragma once

#include <string>
#include <string_view>

namespace weir::proxy::http {

/// Returns the name of this process: `weir-` and 16 hex digits.
const std::string& name_in_via();

/// True if a value of Via names this process.
inline bool names_this_weir(std::string_view via) { return via.find(name_in_via()) != std::string_view::npos; }

}  // namespace weir::proxy::http
