// Identifies the client of a request by its head: its address behind proxies, and what a browser's page may do.
#pragma once

#include "proxy/exchange/client_request.hpp"
#include "proxy/exchange/loop.hpp"

namespace weir::proxy::serve {

/// Fills the client's address and the fields for a page from the head and the settings of the request's snapshot.
/// `client` has the peer's address. Returns false if the client's address has as many requests under way through
/// trusted proxies as limits.connections_per_address allows.
bool identify_client(exchange::Shared& shared, const config::Settings& settings, const http::RequestHead& head,
                     exchange::ClientIdentity& client);

}  // namespace weir::proxy::serve
