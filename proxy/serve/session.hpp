// One client connection: it reads requests one after another and has each answered, in order.
#pragma once

#include <memory>

#include "proxy/exchange/exchange.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/serve/arrivals.hpp"

namespace weir::proxy::serve {

/// Starts a session on the loop's thread; it lives until its connection ends. The connection is counted already, and no
/// more once this throws.
void start_session(exchange::Loop& loop, NewClient client);
void start_session(exchange::Loop& loop, std::unique_ptr<net::Channel> client, const net::PeerAddress& address = {},
                   net::AddressCounts::CountGuard place = {});
/// Sets the options of a client's socket, if it is one of TCP: no delay, and how long a vanished client is waited for.
void set_client_options(const NewClient& client);

}  // namespace weir::proxy::serve
