// Connections opened without blocking, and what their failures mean.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>

#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::net {

/// Begins to connect; the socket turns writable when that is over. Empty where the system refuses at once: errno says
/// why.
UniqueFd begin_connect(const boost::asio::ip::tcp::endpoint& endpoint);
/// In place of an errno: the replica's host name has not been resolved yet.
inline constexpr int name_unknown = -1;
/// "Connection refused", as a part of a sentence.
std::string connect_error_text(int error);
/// The connection failed for want of something of weir's own (descriptors, local addresses, memory), not by the
/// replica's doing.
bool is_own_want(int error);
/// The error of a connection attempt that is over; 0 = connected.
int connect_error(int fd);

}  // namespace weir::proxy::net
