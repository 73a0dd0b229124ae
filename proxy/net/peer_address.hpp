// The address at the other end of a socket.
#pragma once

#include <sys/socket.h>

#include <array>

namespace weir::proxy::net {

/// An IPv6 address, or an IPv4 address as IPv6 writes it (RFC 4291, 2.5.5.2). All zeros where it is not known.
using PeerAddress = std::array<unsigned char, 16>;

PeerAddress peer_address(int fd);
PeerAddress peer_address(const sockaddr_storage& peer);

/// True if it is an IPv4 address.
bool is_ipv4(const PeerAddress& address);

/// True if it is this machine's own: a process here, perhaps a proxy for many.
bool is_loopback(const PeerAddress& address);

/// Returns the part that identifies a client: an IPv4 address, or the first 64 bits of an IPv6 address.
PeerAddress client_part(PeerAddress address);

}  // namespace weir::proxy::net
