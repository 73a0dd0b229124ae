#include "proxy/net/peer_address.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

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
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  const PeerAddress wanted{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
  std::memcpy(&ipv6.sin6_addr, wanted.data(), wanted.size());
  sockaddr_storage peer{};
  std::memcpy(&peer, &ipv6, sizeof ipv6);
  EXPECT_EQ(peer_address(peer), wanted);
  EXPECT_FALSE(is_ipv4(wanted));
}

TEST(PeerAddress, OfNoConnectionIsZero) {
  EXPECT_EQ(peer_address(-1), PeerAddress{});
  EXPECT_FALSE(is_ipv4({}));
}

}  // namespace
}  // namespace weir::proxy::net
