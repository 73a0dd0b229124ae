// One client connection: it reads requests one after another and has each answered, in order.
#pragma once

#include <memory>

#include "proxy/exchange/exchange.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/net/peer_address.hpp"
#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::serve {

/// Starts a session on the loop's thread; it lives until its connection ends.
void start_session(exchange::Loop& loop, net::UniqueFd client);
/// Sets the options of a client's socket: no delay, and how long a vanished client is waited for.
void set_client_options(int fd, const config::Limits& limits);
void start_session(exchange::Loop& loop, std::unique_ptr<net::Channel> client, const net::PeerAddress& address = {});

}  // namespace weir::proxy::serve
