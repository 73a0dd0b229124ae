// Opens channels to replicas, plain or TLS.
#pragma once

#include <memory>

#include "proxy/net/address.hpp"
#include "proxy/net/tls/tls_channel.hpp"

namespace weir::proxy::net {

/// Tests that play the replica have connectors of their own.
class Connector {
 public:
  virtual ~Connector() = default;
  /// Returns a channel that has begun to connect. Returns null if the system refuses at once: errno says why.
  virtual std::unique_ptr<Channel> connect(const Destination& destination) = 0;
};

class SocketConnector final : public Connector {
 public:
  /// The members of `loop` outlive the connector.
  explicit SocketConnector(const tls::TlsChannel::Loop& loop) : loop_(loop) {}
  std::unique_ptr<Channel> connect(const Destination& destination) override;

 private:
  const tls::TlsChannel::Loop loop_;
};

}  // namespace weir::proxy::net
