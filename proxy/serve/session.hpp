// A session is one client connection: it reads requests one after another and has each answered, in order.
#pragma once

#include <memory>

#include "proxy/exchange/exchange.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/serve/arrivals.hpp"

namespace weir::proxy::serve {

/// Starts a session on the loop's thread; it lives until its connection ends.
void start_session(exchange::Loop& loop, NewClient client);
/// The same for a client whose socket the channel has.
void start_session(exchange::Loop& loop, std::unique_ptr<net::Channel> channel, NewClient client);
/// Sets the options of a client's socket, if it is one of TCP: no delay, and how long a vanished client is waited for.
void set_client_options(const NewClient& client);

}  // namespace weir::proxy::serve
