#include "config/address.hpp"

#include <gtest/gtest.h>

#include <tuple>

namespace weir::config {
namespace {

ListenAddress listen(const char* text) {
  const auto parsed = parse_address(text);
  EXPECT_TRUE(std::holds_alternative<ListenAddress>(parsed)) << text;
  const auto* address = std::get_if<ListenAddress>(&parsed);
  return address ? *address : ListenAddress{};
}

TEST(Address, ReadsNumericAddressesAndLocalhost) {
  const std::tuple<const char*, const char*, std::uint16_t> table[] = {{"127.0.0.1:8080", "127.0.0.1", 8080},
                                                                       {"0.0.0.0:0", "0.0.0.0", 0},
                                                                       {"10.1.2.3:65535", "10.1.2.3", 65535},
                                                                       {"[::1]:8080", "::1", 8080},
                                                                       {"[::]:80", "::", 80},
                                                                       {"[0:0:0:0:0:0:0:1]:1", "::1", 1},
                                                                       {"[FD00::7]:80", "fd00::7", 80},
                                                                       {"localhost:80", "127.0.0.1", 80}};
  for (const auto& [text, host, port] : table) EXPECT_EQ(listen(text), (ListenAddress{host, port})) << text;
}

TEST(Address, ReadsPathsOfUnixSockets) {
  const auto socket = listen("unix:/run/weir/weir.sock");
  EXPECT_EQ(socket.unix_path, "/run/weir/weir.sock");
  EXPECT_EQ(socket.host, "");
  EXPECT_EQ(to_text(socket), "unix:/run/weir/weir.sock");
  const std::string longest = "unix:/" + std::string(longest_unix_path - 1, 'x');
  EXPECT_EQ(listen(longest.c_str()).unix_path.size(), longest_unix_path);
  for (const auto& text : {std::string("unix:"), std::string("unix:run/weir.sock"), std::string("unix:/run/"),
                           std::string("unix:/a\0b", 9), longest + "x"})
    EXPECT_TRUE(std::holds_alternative<Problem>(parse_address(text))) << text;
}

TEST(Address, OfAUnixSocketIsLocalAndOverlapsItselfAlone) {
  const auto one = listen("unix:/run/a"), other = listen("unix:/run/b"), port = listen("127.0.0.1:80");
  EXPECT_TRUE(is_local(one));
  EXPECT_TRUE(is_local(port));
  EXPECT_TRUE(is_local(listen("[::1]:1")));
  EXPECT_FALSE(is_local(listen("0.0.0.0:80")));
  EXPECT_FALSE(is_local(listen("10.0.0.1:80")));
  EXPECT_TRUE(overlap(one, one));
  EXPECT_FALSE(overlap(one, other));
  EXPECT_FALSE(overlap(one, port));
  EXPECT_FALSE(overlap(listen("0.0.0.0:0"), one));
  EXPECT_EQ(url_of(one), "unix:/run/a");
  EXPECT_EQ(url_of(port), "http://127.0.0.1:80");
}

TEST(Address, RefusesTheRest) {
  for (const auto* text : {"",
                           ":",
                           "8080",
                           ":8080",
                           "*:8080",
                           "127.0.0.1",
                           "127.0.0.1:",
                           "127.0.0.1:65536",
                           "127.0.0.1:-1",
                           "127.0.0.1:+1",
                           "127.0.0.1:80x",
                           "127.0.0.1: 80",
                           " 127.0.0.1:80",
                           "127.0.0.1:80 ",
                           "127.0.0.01:80",
                           "256.0.0.1:80",
                           "127.1:80",
                           "::1:80",
                           "::1",
                           "[::1]",
                           "[::1]80",
                           "[::1:80",
                           "[]:80",
                           "[127.0.0.1]:80",
                           "[::1%lo]:80",
                           "gpu-box:80",
                           "http://127.0.0.1:80"}) {
    EXPECT_TRUE(std::holds_alternative<Problem>(parse_address(text))) << text;
  }
}

TEST(Address, IsWrittenAsItIsRead) {
  for (const auto* text : {"127.0.0.1:8080", "[::1]:80", "0.0.0.0:0"}) EXPECT_EQ(to_text(listen(text)), text);
}

TEST(Address, KnowsLoopback) {
  for (const auto* host : {"127.0.0.1", "127.255.0.9", "::1", "localhost"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const auto* host : {"0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "fd00::1", "gpu-box", ""}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

TEST(Address, OverlapsWhereTheSystemWouldRefuseTheSecond) {
  const std::tuple<const char*, const char*, bool> table[] = {
      {"127.0.0.1:80", "127.0.0.1:80", true},  {"127.0.0.1:80", "127.0.0.1:81", false},
      {"127.0.0.1:80", "127.0.0.2:80", false}, {"0.0.0.0:80", "127.0.0.1:80", true},
      {"[::]:80", "[::1]:80", true},           {"[::]:80", "127.0.0.1:80", false},
      {"127.0.0.1:0", "127.0.0.1:0", false},   {"0.0.0.0:0", "127.0.0.1:0", false}};
  for (const auto& [one, other, expected] : table) {
    EXPECT_EQ(overlap(listen(one), listen(other)), expected) << one << ' ' << other;
    EXPECT_EQ(overlap(listen(other), listen(one)), expected) << other << ' ' << one;
  }
}

TEST(Address, KnowsReplicasThatAreWeirItself) {
  const auto url = [](const char* host, std::uint16_t port) {
    ReplicaUrl result;
    result.host = host;
    result.port = port;
    return result;
  };
  EXPECT_TRUE(leads_to(url("127.0.0.1", 80), listen("127.0.0.1:80")));
  EXPECT_TRUE(leads_to(url("localhost", 80), listen("127.0.0.1:80")));
  EXPECT_TRUE(leads_to(url("127.0.0.1", 80), listen("0.0.0.0:80")));
  EXPECT_TRUE(leads_to(url("::1", 80), listen("[::]:80")));
  EXPECT_FALSE(leads_to(url("127.0.0.1", 81), listen("127.0.0.1:80")));
  EXPECT_FALSE(leads_to(url("10.0.0.7", 80), listen("0.0.0.0:80"))) << "another machine's, for all we know";
  EXPECT_FALSE(leads_to(url("gpu-box", 80), listen("0.0.0.0:80")));
}

}  // namespace
}  // namespace weir::config
