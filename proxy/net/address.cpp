#include "proxy/net/address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/local/stream_protocol.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

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

namespace {

using boost::asio::ip::address;

/// Replaces the servers of this thread's resolver. getaddrinfo() leaves a changed state as it is (resolver(3)).
bool ask_only(const config::ListenAddress& nameserver) {
  if (::res_init() != 0) return false;
  sockaddr_in server{};
  server.sin_family = AF_INET;
  server.sin_port = htons(nameserver.port);
  if (::inet_pton(AF_INET, nameserver.host.c_str(), &server.sin_addr) != 1) return false;
  _res.nscount = 1;
  _res.nsaddr_list[0] = server;
  return true;
}

address address_of(const sockaddr& found) {
  if (found.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &found, sizeof v4);
    return boost::asio::ip::address_v4(ntohl(v4.sin_addr.s_addr));
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &found, sizeof v6);
  boost::asio::ip::address_v6::bytes_type bytes;
  std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
  return boost::asio::ip::address_v6(bytes, v6.sin6_scope_id);
}

FoundAddresses look_up(const std::string& host, const std::optional<config::ListenAddress>& nameserver) {
  if (nameserver && !ask_only(*nameserver)) return std::string("the resolver cannot be set up");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error == EAI_SYSTEM) return std::string(std::strerror(errno));
  if (error != 0) return std::string(::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<address> addresses;
  for (const auto* one = list; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    const auto found = address_of(*one->ai_addr);
    if (std::ranges::find(addresses, found) == addresses.end()) addresses.push_back(found);
  }
  if (addresses.empty()) return std::string("it has no address");
  return addresses;
}

}  // namespace

NameLookup::NameLookup(std::string host, std::optional<config::ListenAddress> nameserver) {
  std::packaged_task<FoundAddresses()> task(
      [name = std::move(host), server = std::move(nameserver)]() -> FoundAddresses {
        try {
          return look_up(name, server);
        } catch (const std::exception& error) {
          return std::string(error.what());
        }
      });
  found_ = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error& error) {  // There is a limit of processes or memory.
    std::promise<FoundAddresses> none;
    none.set_value(std::string("no thread for it: ") + error.what());
    found_ = none.get_future();
  }
}

std::optional<FoundAddresses> NameLookup::result(std::chrono::steady_clock::duration at_most) {
  if (!found_.valid() || found_.wait_for(at_most) != std::future_status::ready) return std::nullopt;
  return found_.get();
}

std::optional<AddressCounts::CountGuard> AddressCounts::take(const PeerAddress& address, std::size_t most) {
  if (address == PeerAddress{}) return CountGuard{};
  const auto client = client_part(address);
  const std::lock_guard lock(mutex_);
  auto& count = counts_[client];
  if (most != 0 && count >= most) return std::nullopt;
  ++count;
  return CountGuard{*this, client};
}

std::size_t AddressCounts::size() const {
  const std::lock_guard lock(mutex_);
  return counts_.size();
}

void AddressCounts::leave(const PeerAddress& client) {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(client);
  if (--found->second == 0) counts_.erase(found);
}

}  // namespace weir::proxy::net
