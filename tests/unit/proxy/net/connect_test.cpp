#include "proxy/net/connect.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

#include "tests/unit/proxy/net/loopback_listener.hpp"

namespace weir::proxy::net {
namespace {

const Address v4(boost::asio::ip::make_address("192.0.2.1"), 80), v6(boost::asio::ip::make_address("2001:db8::1"), 80);

TEST(Connecting, TellsWeirsOwnWantsFromWhatTheReplicaDoes) {
  for (const int own : {EMFILE, ENFILE, EADDRNOTAVAIL, ENOBUFS, ENOMEM}) EXPECT_TRUE(is_local_shortage(own)) << own;
  for (const int other : {0, -1, ECONNREFUSED, ECONNRESET, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, EACCES})
    EXPECT_FALSE(is_local_shortage(other)) << other;
}

TEST(Connecting, ToSeveralAddressesIsRefusedOnlyIfEachRefuses) {
  const struct {
    std::vector<int> errors;
    int meaning;
  } cases[]{
      {{ECONNREFUSED}, ECONNREFUSED},
      {{ECONNREFUSED, ECONNREFUSED}, ECONNREFUSED},
      {{ECONNREFUSED, ETIMEDOUT}, ETIMEDOUT},
      {{EHOSTUNREACH, ECONNREFUSED}, EHOSTUNREACH},
      {{ENETUNREACH, ECONNREFUSED}, ECONNREFUSED},
      {{ENETUNREACH, ENETUNREACH}, ENETUNREACH},
      {{ECONNREFUSED, ENETUNREACH, ETIMEDOUT, ECONNREFUSED}, ETIMEDOUT},
      {{ECONNREFUSED, EMFILE}, EMFILE},
  };
  for (const auto& [errors, meaning] : cases) {
    int error = 0;
    for (const int one : errors) error = error_of_several(error, one, v4);
    EXPECT_EQ(error, meaning);
  }
}

TEST(Connecting, TheShortageOfLocalPortsIsNoRefusalAndTheLackOfIPv6SaysNothing) {
  const auto meaning = [](int of_v6, int of_v4) {
    return error_of_several(error_of_several(0, of_v6, v6), of_v4, v4);
  };
  EXPECT_EQ(meaning(ECONNREFUSED, EADDRNOTAVAIL), EADDRNOTAVAIL) << "all ports are in use";
  EXPECT_EQ(meaning(ENETUNREACH, EADDRNOTAVAIL), EADDRNOTAVAIL);
  EXPECT_EQ(meaning(EADDRNOTAVAIL, ECONNREFUSED), ECONNREFUSED) << "there is no IPv6";
  EXPECT_EQ(meaning(EADDRNOTAVAIL, ETIMEDOUT), ETIMEDOUT);
}

TEST(Connecting, OpensASocketThatNeitherBlocksNorHoldsBytesBackNorIsInherited) {
  const LoopbackListener listener;
  const auto socket = begin_connect(listener.endpoint);
  ASSERT_TRUE(socket);
  EXPECT_NE(::fcntl(socket.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(socket.get(), F_GETFD) & FD_CLOEXEC, 0);
  const auto option = [&](int level, int name) {
    int value = 0;
    socklen_t value_size = sizeof value;
    return ::getsockopt(socket.get(), level, name, &value, &value_size) == 0 && value != 0;
  };
  EXPECT_TRUE(option(IPPROTO_TCP, TCP_NODELAY));
  EXPECT_TRUE(option(SOL_SOCKET, SO_KEEPALIVE));
}

TEST(Connecting, SaysThatNoDescriptorIsLeft) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ASSERT_GE(next, 0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  errno = 0;
  const auto socket = begin_connect({boost::asio::ip::address_v4::loopback(), 9});
  const int error = errno;
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(socket);
  EXPECT_EQ(error, EMFILE);
}

TEST(Connecting, SaysWhyTheSystemRefusesAnAddress) {
  // Broadcast takes no connections: connect() fails at once, and closing the socket does not hide why.
  errno = 0;
  const auto socket = begin_connect({boost::asio::ip::address_v4::broadcast(), 9});
  const int error = errno;
  EXPECT_FALSE(socket);
  EXPECT_TRUE(error == EACCES || error == ENETUNREACH) << error;
}

}  // namespace
}  // namespace weir::proxy::net
