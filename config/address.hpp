// Reads an address to listen on, "127.0.0.1:8080" or "[::1]:8080", and tells when two of them are one.
#pragma once

#include <string>
#include <string_view>

#include "config/parsed.hpp"
#include "config/settings.hpp"

namespace weir::config {

/// Reads a numeric address and a port. `localhost` stands for 127.0.0.1; other names are refused, because nothing is
/// looked up. The address comes out in its canonical form, so that equal ones compare equal.
Parsed<ListenAddress> parse_address(std::string_view text);

/// Writes an address as `parse_address` reads it back.
std::string to_text(const ListenAddress& address);

/// True if the host of a replica is an address, and no name.
bool is_numeric(std::string_view host);

/// True for 127.0.0.0/8, ::1 and `localhost`. The host is that of a ListenAddress or of a replica; no other name
/// counts.
bool is_loopback(std::string_view host);

/// True if no program can listen on both: they have the same port, and the same address or one that takes all of the
/// same family.
bool overlap(const ListenAddress& one, const ListenAddress& other);

/// True if requests to this replica would come back to a listener of our own.
bool leads_to(const ReplicaUrl& url, const ListenAddress& listener);

}  // namespace weir::config
