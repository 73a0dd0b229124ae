// Watches every replica: probes it, asks for its models, and reads its engine's own pages. On the control thread, off
// the path of requests.
//
// A probe is a GET of the path in [health], with the replica's key, on a connection of its own; or a connection alone,
// where there is no path or the replica has none such. It tries the addresses of the replica's name in turn, and all
// connections go to the one that took it from then on. The pool is told the result, and each change of a replica's
// state is logged.
//
// A reading is a few GETs one after the other, each on a connection of its own, at most 1 MiB and with a time limit: the
// metrics page every few seconds, the models every 5 s, and the pages that tell engine, version and limits at the
// start, when a replica comes back, and every 5 minutes. It publishes them as SharedReplica::engine, and tells the pools
// the limits and the model directory the models.
//
// A replica has one probe and one reading under way at most. A page that takes its time holds up no probe.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>

#include "proxy/fleet/fleet.hpp"
#include "proxy/fleet/model_directory.hpp"

namespace weir::proxy::fleet {

/// Until the context stops. `seed` spreads probes and readings over time.
void start_watcher(boost::asio::io_context& context, const Fleet& fleet, ModelDirectory& models, std::uint64_t seed);

}  // namespace weir::proxy::fleet
