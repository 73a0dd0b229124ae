// The metrics and admin listeners: scrapes, health, and what is known of the replicas. On the control thread, off the
// path of requests; small answers, so Beast reads and writes them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>

#include "metrics/series/exposition.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::control {

/// What an operator may ask for on a listener.
enum class Door : unsigned char {
  metrics,  ///< /metrics, /-/healthy, /-/ready
  admin,    ///< The same, and GET /api/replicas
};

/// What the answers are made of; outlives the context's run.
struct Operated {
  const metrics::series::Exposition& exposition;
  const fleet::Fleet& fleet;
  std::function<std::string()> why_not_ready;  ///< "" where weir takes requests and has a replica for them.
};

/// Serves one connection of an operator's.
void start_admin_session(boost::asio::io_context& context, net::UniqueFd client, bool ipv6, Door door,
                         const Operated& weir);

}  // namespace weir::proxy::control
