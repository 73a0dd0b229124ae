// The options of a client's socket, read back from the kernel.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "proxy/net/channel.hpp"
#include "proxy/serve/session.hpp"
#include "tests/unit/proxy/net/loopback_listener.hpp"

namespace weir::proxy::serve {
namespace {

int option(const net::UniqueFd& socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(socket.get(), level, name, &value, &size), 0);
  return value;
}

/// A connection over loopback, whose far end listens and does no more.
NewClient connected(const net::LoopbackListener& listener) {
  NewClient client;
  client.socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(client.socket.get(), listener.endpoint.data(), static_cast<socklen_t>(listener.endpoint.size())),
            0);
  return client;
}

TEST(ClientOptions, AskASilentClientTwiceBeforeItCountsAsVanished) {
  const net::LoopbackListener listener;
  auto client = connected(listener);
  client.address.fill(1);
  set_client_options(client);
  EXPECT_EQ(option(client.socket, SOL_SOCKET, SO_KEEPALIVE), 1);
  const int idle = option(client.socket, IPPROTO_TCP, TCP_KEEPIDLE);
  const int interval = option(client.socket, IPPROTO_TCP, TCP_KEEPINTVL);
  EXPECT_EQ(idle, 15);
  EXPECT_EQ(interval, 5);
  EXPECT_LT(std::chrono::seconds(idle + 2 * interval), net::most_silence);
  EXPECT_EQ(option(client.socket, IPPROTO_TCP, TCP_NODELAY), 1);
}

TEST(ClientOptions, LeaveASmallWindowToClientStall) {
  const net::LoopbackListener listener;
  auto client = connected(listener);
  client.address.fill(1);
  set_client_options(client);
  EXPECT_EQ(option(client.socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
  const std::chrono::seconds idle(option(client.socket, IPPROTO_TCP, TCP_KEEPIDLE)),
      probed(option(client.socket, IPPROTO_TCP, TCP_KEEPINTVL) * option(client.socket, IPPROTO_TCP, TCP_KEEPCNT));
  EXPECT_GT(idle + probed, net::most_silence) << "weir looks first";
}

}  // namespace
}  // namespace weir::proxy::serve
