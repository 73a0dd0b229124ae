// What a request's head tells of who asks: the client behind proxies, and the page of a browser.
#pragma once

#include "proxy/exchange/client_request.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/http/own_answer.hpp"

namespace weir::proxy::serve {

/// Fills the client's address, what a page may do, and whether weir is bypassed, from the head and the settings of the
/// request's snapshot. A preflight gets a route of its own. Returns false if the client's address has as many requests
/// under way through trusted proxies as limits.connections_per_address allows.
bool learn_who_asks(exchange::Shared& shared, exchange::ClientRequest& request);

/// Returns the answer to such a client.
http::OwnAnswer too_many_of_an_address();

}  // namespace weir::proxy::serve
