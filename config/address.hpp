// Reads an address to listen on, "127.0.0.1:8080", "[::1]:8080" or "unix:/path", and tells when two of them are one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "config/parsed.hpp"
#include "config/settings.hpp"

namespace weir::config {

/// The path of a Unix-domain socket may have so many bytes (unix(7): sun_path, less the NUL at its end).
inline constexpr std::size_t longest_unix_path = 107;
inline constexpr std::string_view unix_scheme = "unix:";

/// Reads a numeric address and a port, or `unix:` and an absolute path. `localhost` stands for 127.0.0.1; other names
/// are refused, because nothing is looked up. The address comes out in its canonical form, so that equal ones compare
/// equal.
Parsed<ListenAddress> parse_address(std::string_view text);

/// Writes an address as `parse_address` reads it back.
std::string to_text(const ListenAddress& address);

/// True if the host of a replica is an address, and no name.
bool is_numeric(std::string_view host);

/// True for 127.0.0.0/8, ::1 and `localhost`. The host is that of a ListenAddress or of a replica; no other name
/// counts.
bool is_loopback(std::string_view host);

/// True if only this machine reaches it: a loopback address, or a Unix-domain socket.
bool is_local(const ListenAddress& address);

/// Why an admin listener that others than this machine reach is refused without a token, as the end of "KEY = VALUE: ".
inline constexpr std::string_view admin_needs_a_token =
    "is reached from other machines, and whoever reaches this listener can change what weir does: set token in "
    "[admin], "
    "or listen on a loopback address such as \"127.0.0.1:9091\" or on a socket such as \"unix:/run/weir/admin.sock\"";

/// How a browser or curl names it: `http://127.0.0.1:8080`. A Unix-domain socket has no such name, so it is itself.
std::string url_of(const ListenAddress& address);

/// True if no program can listen on both: they have the same port, and the same address or one that takes all of the
/// same family; or they are one Unix-domain socket.
bool overlap(const ListenAddress& one, const ListenAddress& other);

/// True if requests to this replica would come back to a listener of our own.
bool leads_to(const ReplicaUrl& url, const ListenAddress& listener);

}  // namespace weir::config
