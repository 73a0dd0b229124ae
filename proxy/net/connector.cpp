#include "proxy/net/connector.hpp"

#include "proxy/net/connect.hpp"
#include "proxy/net/socket_channel.hpp"

namespace weir::proxy::net {

std::unique_ptr<Channel> SocketConnector::connect(const Destination& destination) {
  auto socket = begin_connect(destination.address);
  if (!socket) return nullptr;
  if (destination.tls) return tls::TlsChannel::to_replica(loop_, std::move(socket), destination.tls);
  return std::make_unique<SocketChannel>(loop_.poller, loop_.clock, std::move(socket));
}

}  // namespace weir::proxy::net
