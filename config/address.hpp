// Reads an address to listen on, "127.0.0.1:8080", "[::1]:8080" or "unix:/path", and tells when two of them are one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/settings.hpp"
#include "config/values.hpp"

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

// Reads a range of addresses, "10.0.0.0/8" or "::1", and tells which addresses are in it.

/// An IPv6 address, or an IPv4 address as IPv6 writes it (RFC 4291, 2.5.5.2).
using AddressBytes = std::array<std::uint8_t, 16>;

/// Reads a numeric address; nothing if it is none.
std::optional<AddressBytes> parse_address_bytes(std::string_view text);

/// Reads an address, or one with `/` and the bits that count. The other bits must be 0. `unix:` stands for all who come
/// by a Unix-domain socket: they have no address, which is written as `::`, and no peer has that one.
Parsed<Network> parse_network(std::string_view text);

/// Writes a network as `parse_network` reads it back.
std::string to_text(const Network& network);

bool contains(const Network& network, const AddressBytes& address);
bool contains(std::span<const Network> networks, const AddressBytes& address);

// Reads the URL of a replica, `http://host[:port][/prefix]`, the same with `https`, or `unix:/path`, which holds
// nothing beyond that.

/// Returns the text with its ASCII capitals as small letters.
std::string lower(std::string_view text);

/// Refuses other schemes, user names, queries, fragments and hosts that are neither a name nor an address.
Parsed<ReplicaUrl> parse_replica_url(std::string_view text);

/// Writes a URL as `parse_replica_url` reads it back.
std::string to_text(const ReplicaUrl& url);

/// Returns the text with `***` in place of what stands between `://` and the last `@`, and behind a `?` or `#`, so that
/// an error shows no password and no key. Where `://` is missing, that is what stands before the `@`, if there is a
/// colon in it, and behind a `?`.
std::string without_credentials(std::string_view text);

}  // namespace weir::config
