// Opens connections without blocking, and explains their failures.
#pragma once

#include <memory>
#include <string>

#include "proxy/net/address.hpp"
#include "proxy/net/tls/tls_channel.hpp"

namespace weir::proxy::net {

/// Begins to connect; the socket turns writable when that has ended. Returns an empty one if the system refuses at
/// once: errno says why.
UniqueFd begin_connect(const Address& address);
/// Returns the error of an attempt at several addresses of a name: `before` is that of the earlier ones, 0 for none,
/// and `error` that of the one at `at`. It is ECONNREFUSED only if each address refused. An address without a route
/// from this machine does not count where another was tried. For an IPv6 address EADDRNOTAVAIL means that the machine
/// has no IPv6; for an IPv4 address it means that all local ports are in use.
int error_of_several(int before, int error, const Address& at);
/// Stands in place of an errno: the replica's host name has not been resolved yet.
inline constexpr int name_unknown = -1;
/// Returns a text such as "Connection refused", as a part of a sentence. `error` is an errno, name_unknown, or a
/// failure of tls/context.hpp.
std::string connect_error_text(int error);
/// True if the connection failed because weir itself lacked something (descriptors, local addresses, memory), not
/// through the replica.
bool is_local_shortage(int error);

// Opens channels to replicas, plain or TLS.

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
