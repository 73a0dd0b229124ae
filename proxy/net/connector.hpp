// Opens channels to replicas, plain or TLS.
#pragma once

#include <memory>

#include "proxy/net/address.hpp"
#include "proxy/net/deadline.hpp"
#include "proxy/net/tls/tls_channel.hpp"

namespace weir::proxy::net {

/// Returns a channel that has begun to connect to an address, by TLS if `target` is not null. Returns null if the
/// system refuses at once: errno says why.
std::unique_ptr<Channel> connect_channel(const tls::TlsChannel::Loop& loop, const Address& address,
                                         const std::shared_ptr<const tls::Target>& target);

/// Tests that play the replica have connectors of their own.
class Connector {
 public:
  virtual ~Connector() = default;
  /// Returns a channel that has begun to connect; null as connect_channel().
  virtual std::unique_ptr<Channel> connect(const Destination& destination) = 0;
};

class SocketConnector final : public Connector {
 public:
  /// The members of `loop` and `deadlines` outlive the connector.
  SocketConnector(const tls::TlsChannel::Loop& loop, Deadlines& deadlines) : loop_(loop), deadlines_(deadlines) {}
  std::unique_ptr<Channel> connect(const Destination& destination) override;

 private:
  const tls::TlsChannel::Loop loop_;
  Deadlines& deadlines_;
};

}  // namespace weir::proxy::net
