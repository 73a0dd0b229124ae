#include "proxy/net/peer_address.hpp"

#include <gtest/gtest.h>

#include "tests/unit/proxy/net/loopback_listener.hpp"

namespace weir::proxy::net {
namespace {

TEST(PeerAddress, OfIpv4IsWrittenAsIpv6DoesIt) {
  const LoopbackListener listener;
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), listener.endpoint.data(), static_cast<socklen_t>(listener.endpoint.size())), 0);
  const PeerAddress loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  EXPECT_EQ(peer_address(client.get()), loopback);
  EXPECT_TRUE(is_ipv4(loopback));
}

TEST(PeerAddress, OfIpv6IsItself) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  socklen_t size = sizeof address;
  const UniqueFd listener(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) GTEST_SKIP() << "no IPv6 here";
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const UniqueFd client(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  const PeerAddress loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  EXPECT_EQ(peer_address(client.get()), loopback);
  EXPECT_FALSE(is_ipv4(loopback));
}

TEST(PeerAddress, OfNoConnectionIsZero) {
  EXPECT_EQ(peer_address(-1), PeerAddress{});
  EXPECT_FALSE(is_ipv4({}));
}

}  // namespace
}  // namespace weir::proxy::net
