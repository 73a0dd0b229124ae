// Listens on a loopback port that the system chooses, for tests that need a real connection.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>

#include "proxy/net/unique_fd.hpp"

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

}  // namespace weir::proxy::net
