// Where a connection leads: an IP address and a port, or the path of a Unix-domain socket.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "config/settings.hpp"

namespace weir::proxy::net {

using StreamEndpoint = boost::asio::generic::stream_protocol::endpoint;

class Address {
 public:
  Address() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): an endpoint is an address.
  Address(const boost::asio::ip::tcp::endpoint& endpoint) : endpoint_(endpoint) {}
  Address(const boost::asio::ip::address& address, std::uint16_t port) : endpoint_(address, port) {}
  /// Returns the address of the socket at this path, which has at most 107 bytes.
  static Address at_path(std::string path);

  bool is_path() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  /// The address and the port of an endpoint; meaningless for a path.
  boost::asio::ip::address address() const { return endpoint_.address(); }
  std::uint16_t port() const { return endpoint_.port(); }

  /// Returns the endpoint for system calls.
  StreamEndpoint endpoint() const;
  /// Returns the text as in settings: "127.0.0.1:80", "[::1]:80" or "unix:/path".
  std::string to_text() const;

  bool operator==(const Address&) const = default;

 private:
  boost::asio::ip::tcp::endpoint endpoint_;
  std::string path_;
};

/// Returns an address of the settings, TCP or a Unix-domain socket, as Asio takes it. Throws
/// boost::system::system_error if the host is no numeric address, which the settings have checked.
StreamEndpoint listen_endpoint(const config::ListenAddress& address);

namespace tls {
class Target;
}

/// Where to connect: an address, and the TLS target.
struct Destination {
  Destination() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): without TLS, an address is all.
  Destination(Address where, std::shared_ptr<const tls::Target> how = nullptr)
      : address(std::move(where)), tls(std::move(how)) {}
  bool operator==(const Destination&) const = default;

  Address address;
  std::shared_ptr<const tls::Target> tls;  ///< Null means plain.
};

}  // namespace weir::proxy::net
