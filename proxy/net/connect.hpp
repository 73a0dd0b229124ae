// Opens connections without blocking, and explains their failures.
#pragma once

#include <string>

#include "proxy/net/address.hpp"
#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::net {

/// Begins to connect; the socket turns writable when that has ended. Returns an empty one if the system refuses at
/// once: errno says why.
UniqueFd begin_connect(const Address& address);
/// Stands in place of an errno: the replica's host name has not been resolved yet.
inline constexpr int name_unknown = -1;
/// Returns a text such as "Connection refused", as a part of a sentence. `error` is an errno, name_unknown, or a
/// failure of tls/failure.hpp.
std::string connect_error_text(int error);
/// True if the connection failed because weir itself lacked something (descriptors, local addresses, memory), not
/// through the replica.
bool is_local_shortage(int error);

}  // namespace weir::proxy::net
