// "127.0.0.1:8080", "[::1]:8080": an address to listen on, and when two of them are one.
#pragma once

#include <string>
#include <string_view>

#include "config/parsed.hpp"
#include "config/settings.hpp"

namespace weir::config {

/// A numeric address and a port; `localhost` stands for 127.0.0.1, other names are refused: nothing is looked up.
/// The address comes out in its canonical form, so that equal ones compare equal.
Parsed<ListenAddress> parse_address(std::string_view text);

/// Writes an address as `parse_address` reads it back.
std::string to_text(const ListenAddress& address);

/// 127.0.0.0/8 and ::1. The host is one of a ListenAddress, or a replica's: a name is no loopback but `localhost`.
bool is_loopback(std::string_view host);

/// Both cannot be listened on: the same port, and the same address or one that takes all of the same family.
bool overlap(const ListenAddress& one, const ListenAddress& other);

/// Requests to this replica would come back to a listener of our own.
bool leads_to(const ReplicaUrl& url, const ListenAddress& listener);

}  // namespace weir::config
