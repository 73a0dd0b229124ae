#include "proxy/net/name_lookup.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <resolv.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace weir::proxy::net {
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

}  // namespace weir::proxy::net
