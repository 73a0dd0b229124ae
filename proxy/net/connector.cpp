#include "proxy/net/connector.hpp"

#include "proxy/net/connect.hpp"
#include "proxy/net/racing_channel.hpp"
#include "proxy/net/socket_channel.hpp"

namespace weir::proxy::net {

std::unique_ptr<Channel> connect_channel(const tls::TlsChannel::Loop& loop, const Address& address,
                                         const std::shared_ptr<const tls::Target>& target) {
  auto socket = begin_connect(address);
  if (!socket) return nullptr;
  if (target) return tls::TlsChannel::to_replica(loop, std::move(socket), target);
  return std::make_unique<SocketChannel>(loop.poller, loop.clock, std::move(socket));
}

std::unique_ptr<Channel> SocketConnector::connect(const Destination& destination) {
  if (destination.others.empty()) return connect_channel(loop_, destination.address, destination.tls);
  return RacingChannel::begin(loop_, deadlines_, destination);
}

}  // namespace weir::proxy::net
