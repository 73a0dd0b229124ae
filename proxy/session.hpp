// One client connection: reads requests one after another and has each answered, in order.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "proxy/exchange.hpp"
#include "proxy/loop.hpp"
#include "proxy/unique_fd.hpp"

namespace weir::proxy {

/// Starts a session on the loop's thread; it lives until its connection ends.
void start_session(Loop& loop, UniqueFd client, bool ipv6);

}  // namespace weir::proxy
