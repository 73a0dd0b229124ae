// The metrics and admin listeners: scrapes, health, and what is known of the replicas. On the control thread, off the
// path of requests; small answers, so Beast reads and writes them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>

#include "proxy/loop.hpp"
#include "proxy/unique_fd.hpp"

namespace weir::proxy {

/// What an operator may ask for on a listener.
enum class Door : unsigned char {
  metrics,  ///< /metrics, /-/healthy, /-/ready
  admin,    ///< The same, and GET /api/replicas
};

/// Serves one connection of an operator's. `ready` says whether weir takes requests.
void start_admin_session(boost::asio::io_context& context, UniqueFd client, bool ipv6, Door door, Shared& shared,
                         std::function<bool()> ready);

}  // namespace weir::proxy
