// An address of the settings as Asio takes it, TCP or a Unix-domain socket.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>

#include "config/settings.hpp"

namespace weir::proxy::net {

using StreamEndpoint = boost::asio::generic::stream_protocol::endpoint;

/// Throws boost::system::system_error if the host is no numeric address. The settings have checked that.
StreamEndpoint listen_endpoint(const config::ListenAddress& address);

}  // namespace weir::proxy::net
