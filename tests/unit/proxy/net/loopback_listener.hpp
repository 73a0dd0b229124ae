// Listens on a loopback port that the system chooses, for tests that need a real connection.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <vector>

#include "proxy/net/address.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::net {

struct LoopbackListener {
  LoopbackListener() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd.get(), 1), 0);
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    endpoint = {boost::asio::ip::address_v4::loopback(), ntohs(address.sin_port)};
  }

  UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  boost::asio::ip::tcp::endpoint endpoint;
};

/// Returns an address at which nobody listens.
inline Address refusing() {
  const LoopbackListener gone;
  return gone.endpoint;
}

/// A listener whose backlog is full, so that connections to it stay unanswered.
class Deaf {
 public:
  Deaf() {
    ::listen(listener_.fd.get(), 0);
    for (bool taken = true; taken;) {
      auto& filling = waiting_.emplace_back(begin_connect(listener_.endpoint));
      pollfd connected{filling.get(), POLLOUT, 0};
      taken = ::poll(&connected, 1, 50) > 0;
    }
  }
  Address address() const { return listener_.endpoint; }

 private:
  LoopbackListener listener_;
  std::vector<UniqueFd> waiting_;
};

}  // namespace weir::proxy::net
