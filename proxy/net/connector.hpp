// Opens channels to replicas, plain or TLS.
#pragma once

#include <memory>

#include "proxy/net/address.hpp"
#include "proxy/net/deadline.hpp"
#include "proxy/net/tls/tls_channel.hpp"

namespace weir::proxy::net {

/// A test that plays the replica replaces it.
class Connector {
 public:
  virtual ~Connector() = default;
  /// Returns a channel that has begun to connect. Returns null if the system refuses at once: errno says why.
  virtual std::unique_ptr<Channel> connect(const Destination& destination) = 0;
};

class SocketConnector final : public Connector {
 public:
  /// All that `loop` names outlives it, as do `deadlines`.
  SocketConnector(const tls::TlsChannel::Loop& loop, Deadlines& deadlines) : loop_(loop), deadlines_(deadlines) {}
  std::unique_ptr<Channel> connect(const Destination& destination) override;

 private:
  const tls::TlsChannel::Loop loop_;
  Deadlines& deadlines_;
};

}  // namespace weir::proxy::net
