// Resolves replica names to addresses at the start and again every 30 s, on the control thread.
#pragma once

#include <boost/asio/io_context.hpp>

#include "proxy/fleet/fleet.hpp"

namespace weir::proxy::fleet {

/// Starts the resolver. Numeric addresses are set before this returns; names follow as they are resolved. A name that
/// is not found leaves the address as it was and is logged. It runs until the context stops.
void start_resolver(boost::asio::io_context& context, const Fleet& fleet);

}  // namespace weir::proxy::fleet
