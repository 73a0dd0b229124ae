// Probes every replica, tells its pool the result, and logs each change of a replica's state. On the control
// thread.
//
// A probe is a GET of the path in [health], with the replica's key, on a connection of its own; or a connection alone,
// where there is no path or the replica has none such. One probe of a replica at a time.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>

#include "proxy/fleet/fleet.hpp"

namespace weir::proxy::fleet {

/// Until the context stops. `seed` spreads the probes over time.
void start_prober(boost::asio::io_context& context, const Fleet& fleet, std::uint64_t seed);

}  // namespace weir::proxy::fleet
