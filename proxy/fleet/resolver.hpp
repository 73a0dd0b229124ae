// Looks up the hosts' names in the replicas' urls on behalf of the control thread: at the start, in every new snapshot,
// so often as [discovery] says, and when a connection to such a replica fails. discovery.hpp interprets the answers.
#pragma once

#include <boost/asio/io_context.hpp>

#include "proxy/fleet/fleet.hpp"

namespace weir::proxy::fleet {

/// Starts the resolver, which runs until the context stops. A name that is not found leaves the addresses as they were,
/// which is logged once; a replica that has none yet is down. The members of a name with `expand` go through
/// Fleet::adopt.
void start_resolver(boost::asio::io_context& context, Fleet& fleet);

}  // namespace weir::proxy::fleet
