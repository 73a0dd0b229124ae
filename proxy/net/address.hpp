// Where a connection leads: an IP address and a port, or the path of a Unix-domain socket.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
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

// The address at the other end of a socket.

/// An IPv6 address, or an IPv4 address as IPv6 writes it (RFC 4291, 2.5.5.2). All zeros where it is not known.
using PeerAddress = std::array<unsigned char, 16>;

PeerAddress peer_address(int fd);
PeerAddress peer_address(const sockaddr_storage& peer);

/// True if it is an IPv4 address.
bool is_ipv4(const PeerAddress& address);

/// True if it is this machine's own: a process here, perhaps a proxy for many.
bool is_loopback(const PeerAddress& address);

/// Returns the part that identifies a client: an IPv4 address, or the first 64 bits of an IPv6 address.
PeerAddress client_part(PeerAddress address);

// An owned file descriptor.

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace weir::proxy::net
