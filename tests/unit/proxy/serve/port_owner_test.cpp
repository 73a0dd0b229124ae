#include "proxy/serve/port_owner.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

#include "proxy/serve/listener.hpp"
#include "tests/unit/proxy/net/loopback_listener.hpp"

namespace weir::proxy::serve {
namespace {

constexpr std::string_view tcp =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:1F90 00000000:0000 01 00000000:00000000 00:00000000 00000000  1000        0 11 1 0 100 0 0 10 0\n"
    "   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 12 1 0 100 0 0 10 0\n"
    "   2: 00000000:2382 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 13 1 0 100 0 0 10 0\n"
    "   3: 0500000A:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 14 1 0 100 0 0 10 0\n"
    "   4: torn\n";
constexpr std::string_view tcp6 =
    "   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 7 0 21 1\n"
    "   1: 0000000000000000FFFF00000100007F:2382 00000000000000000000000000000000:0000 0A 0:0 0:0 0 8 0 22 1\n"
    "   2: 00000000000000000000000000000000:0051 00000000000000000000000000000000:0000 0A 0:0 0:0 0 9 0 23 1\n";

TEST(FindListening, ReadsTheSystemsTables) {
  const struct {
    std::string_view table;
    config::ListenAddress address;
    std::uint64_t inode;  ///< 0 if there is none.
  } cases[]{
      {tcp, {"127.0.0.1", 8080}, 12},  // The connection from the same port does not count.
      {tcp, {"127.0.0.2", 8080}, 0},  {tcp, {"0.0.0.0", 8080}, 12}, {tcp, {"127.0.0.1", 9090}, 13},
      {tcp, {"10.0.0.5", 80}, 14},    {tcp, {"5.0.0.10", 80}, 0},   {tcp, {"127.0.0.1", 1}, 0},
      {tcp6, {"::1", 8080}, 21},      {tcp6, {"::2", 8080}, 0},     {tcp6, {"127.0.0.1", 9090}, 22},
      {tcp6, {"127.0.0.1", 81}, 23},  {tcp6, {"::", 8080}, 21},     {"", {"127.0.0.1", 8080}, 0},
  };
  for (const auto& [table, address, inode] : cases) {
    const auto found = find_listening(table, address);
    EXPECT_EQ(found ? found->inode : 0, inode) << address.host << ' ' << address.port;
  }
  EXPECT_EQ(find_listening(tcp, {"127.0.0.1", 8080})->user, 1001U);
}

TEST(PortOwner, IsThisProcessWhereThisOneListens) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  EXPECT_THAT(port_owner({"127.0.0.1", ntohs(address.sin_port)}),
              testing::AllOf(testing::HasSubstr("unit_proxy"), testing::HasSubstr(std::to_string(::getpid()))));
  ::close(fd);
}

TEST(PortOwner, IsLookedForAmongConnectionsTooWhereNobodyListens) {
  const net::LoopbackListener far;
  const auto near = net::begin_connect(far.endpoint);
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(near.get(), reinterpret_cast<sockaddr*>(&address), &size);
  boost::asio::io_context context;
  const config::ListenAddress taken{"127.0.0.1", ntohs(address.sin_port)};
  try {
    Listener(context, "server.listen", taken, [](net::UniqueFd) {});
    FAIL() << "the port of an outgoing connection was free";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the port is taken by another program (`ss -tanp`, as root"));
  }
}

}  // namespace
}  // namespace weir::proxy::serve
