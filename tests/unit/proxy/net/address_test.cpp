#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

#include "proxy/net/address.hpp"
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

int duplicate() { return ::fcntl(0, F_DUPFD_CLOEXEC, 0); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesWhatItOwnsAtItsEnd) {
  const int fd = duplicate();
  {
    const UniqueFd owner(fd);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFd, ClosesWhatItOwnedWhenItTakesAnother) {
  const int first = duplicate(), second = duplicate();
  UniqueFd owner(first), other(second);
  owner = std::move(other);
  EXPECT_FALSE(is_open(first));
  EXPECT_TRUE(is_open(second));
  EXPECT_EQ(owner.get(), second);
  EXPECT_FALSE(other);  // NOLINT(bugprone-use-after-move): it owns nothing now.
  owner.reset();
  EXPECT_FALSE(is_open(second));
}

TEST(UniqueFd, ReleasesWithoutClosing) {
  const int fd = duplicate();
  UniqueFd owner(fd);
  EXPECT_EQ(owner.release(), fd);
  EXPECT_FALSE(owner);
  EXPECT_TRUE(is_open(fd));
  owner.reset(fd);
}

}  // namespace
}  // namespace weir::proxy::net
