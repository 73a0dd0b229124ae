#include "proxy/net/address.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstring>

#include "config/address.hpp"

namespace weir::proxy::net {

Address Address::at_path(std::string path) {
  Address address;
  address.path_ = std::move(path);
  return address;
}

StreamEndpoint Address::endpoint() const {
  if (is_path()) return boost::asio::local::stream_protocol::endpoint(path_);
  return endpoint_;
}

std::string Address::to_text() const {
  if (is_path()) return "unix:" + path_;
  return config::to_text(config::ListenAddress{endpoint_.address().to_string(), endpoint_.port()});
}

StreamEndpoint listen_endpoint(const config::ListenAddress& address) {
  if (!address.unix_path.empty()) return Address::at_path(address.unix_path).endpoint();
  return Address(boost::asio::ip::make_address(address.host), address.port).endpoint();
}

namespace {

constexpr std::array<unsigned char, 12> ipv4_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

PeerAddress peer_address(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  return ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 ? peer_address(peer) : PeerAddress{};
}

PeerAddress peer_address(const sockaddr_storage& peer) {
  PeerAddress address{};
  if (peer.ss_family == AF_INET6) {
    sockaddr_in6 ipv6;
    std::memcpy(&ipv6, &peer, sizeof ipv6);
    std::memcpy(address.data(), &ipv6.sin6_addr, address.size());
  } else if (peer.ss_family == AF_INET) {
    sockaddr_in ipv4;
    std::memcpy(&ipv4, &peer, sizeof ipv4);
    std::ranges::copy(ipv4_prefix, address.begin());
    std::memcpy(address.data() + ipv4_prefix.size(), &ipv4.sin_addr, sizeof ipv4.sin_addr);
  }
  return address;
}

bool is_ipv4(const PeerAddress& address) { return std::equal(ipv4_prefix.begin(), ipv4_prefix.end(), address.begin()); }

bool is_loopback(const PeerAddress& address) {
  static constexpr PeerAddress ipv6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return is_ipv4(address) ? address[12] == 127 : address == ipv6;
}

PeerAddress client_part(PeerAddress address) {
  if (!is_ipv4(address)) std::fill(address.begin() + address.size() / 2, address.end(), static_cast<unsigned char>(0));
  return address;
}

}  // namespace weir::proxy::net
