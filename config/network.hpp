// Reads a range of addresses, "10.0.0.0/8" or "::1", and tells which addresses are in it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/parsed.hpp"
#include "config/settings.hpp"

namespace weir::config {

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

}  // namespace weir::config
