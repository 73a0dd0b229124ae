// Finds who already listens where weir wants to, for the error at start, as far as Linux tells. It costs a walk through
// /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/settings.hpp"

namespace weir::proxy::serve {

/// A listening socket as /proc/net/tcp and /proc/net/tcp6 show it.
struct ListeningSocket {
  std::uint64_t inode = 0;
  std::uint32_t user = 0;
  bool operator==(const ListeningSocket&) const = default;
};

/// Returns the first socket of such a table that listens on this port, on the same address or where one of the two
/// takes all.
std::optional<ListeningSocket> find_listening(std::string_view table, const config::ListenAddress& address);

/// Returns "'nginx' (process 1234)", or "a process of user 33" if its descriptors may not be seen, or "".
std::string port_owner(const config::ListenAddress& address);

/// Returns the inode of the socket that listens at this path, by a table as /proc/net/unix is.
std::optional<std::uint64_t> find_listening_at(std::string_view table, std::string_view path);

/// Returns the same as port_owner for a Unix-domain socket; "" if its descriptors may not be seen.
std::string socket_owner(std::string_view path);

}  // namespace weir::proxy::serve
