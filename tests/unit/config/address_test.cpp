#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <tuple>
#include <utility>

#include "config/address.hpp"

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

Network network(const char* text) {
  const auto parsed = parse_network(text);
  EXPECT_TRUE(std::holds_alternative<Network>(parsed)) << text;
  const auto* found = std::get_if<Network>(&parsed);
  return found ? *found : Network{};
}

AddressBytes address(const char* text) {
  const auto bytes = parse_address_bytes(text);
  EXPECT_TRUE(bytes) << text;
  return bytes.value_or(AddressBytes{});
}

TEST(Network, HoldsTheAddressesThatBeginAsItDoes) {
  const std::tuple<const char*, const char*, bool> table[] = {{"10.0.0.7", "10.0.0.7", true},
                                                              {"10.0.0.7", "10.0.0.6", false},
                                                              {"10.0.0.0/8", "10.255.255.255", true},
                                                              {"10.0.0.0/8", "11.0.0.0", false},
                                                              {"10.0.0.0/8", "9.255.255.255", false},
                                                              {"10.128.0.0/9", "10.127.255.255", false},
                                                              {"10.128.0.0/9", "10.128.0.0", true},
                                                              {"192.168.4.0/22", "192.168.7.255", true},
                                                              {"192.168.4.0/22", "192.168.8.0", false},
                                                              {"0.0.0.0/0", "255.1.2.3", true},
                                                              {"0.0.0.0/0", "fd00::1", false},
                                                              {"::/0", "fd00::1", true},
                                                              {"::/0", "1.2.3.4", true},
                                                              {"::1", "::1", true},
                                                              {"::1", "127.0.0.1", false},
                                                              {"fd00::/8", "fdff::1", true},
                                                              {"fd00::/8", "fe00::1", false},
                                                              {"2001:db8::/33", "2001:db8:7fff::1", true},
                                                              {"2001:db8::/33", "2001:db8:8000::1", false},
                                                              {"::ffff:10.0.0.0/104", "10.9.9.9", true}};
  for (const auto& [in, one, is_in] : table) EXPECT_EQ(contains(network(in), address(one)), is_in) << in << ' ' << one;
}

TEST(Network, IsWrittenAsItIsRead) {
  for (const auto* text : {"10.0.0.7", "10.0.0.0/8", "0.0.0.0/0", "::1", "fd00::/8", "::/0", "unix:"})
    EXPECT_EQ(to_text(network(text)), text);
  EXPECT_EQ(to_text(network("10.0.0.7/32")), "10.0.0.7");
  EXPECT_EQ(to_text(network("::ffff:10.0.0.0/104")), "10.0.0.0/8");
}

TEST(Network, OfUnixSocketsHoldsNoAddress) {
  const std::array trusted{network("unix:")};
  EXPECT_TRUE(contains(trusted, AddressBytes{})) << "a peer without an address";
  EXPECT_FALSE(contains(trusted, address("127.0.0.1")));
  EXPECT_FALSE(contains(trusted, address("::1")));
  EXPECT_FALSE(contains(std::array{network("10.0.0.0/8"), network("::1")}, AddressBytes{}));
}

TEST(Network, RefusesTheRest) {
  for (const auto* text : {"", "/", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "::/129", "10.0/8",
                           "gpu0", "10.0.0.1:80", "[::1]", "::", "unix", "unix:/run/x", "10.0.0.0/8/8", " 10.0.0.1"})
    EXPECT_TRUE(std::holds_alternative<Problem>(parse_network(text))) << text;
}

TEST(Network, SaysWhichNetworkIsMeant) {
  const auto parsed = parse_network("10.1.2.3/8");
  ASSERT_TRUE(std::holds_alternative<Problem>(parsed));
  EXPECT_THAT(std::get<Problem>(parsed).text, testing::HasSubstr("write \"10.0.0.0/8\""));
}

TEST(ReplicaUrlText, IsTakenApart) {
  const std::pair<const char*, ReplicaUrl> table[] = {
      {"http://127.0.0.1:8001", {"127.0.0.1", 8001, "", "127.0.0.1:8001"}},
      {"http://gpu-box", {"gpu-box", 80, "", "gpu-box"}},
      {"http://gpu-box/", {"gpu-box", 80, "", "gpu-box"}},
      {"HTTP://gpu_0.example:80", {"gpu_0.example", 80, "", "gpu_0.example:80"}},
      {"http://GPU-Box:1", {"gpu-box", 1, "", "GPU-Box:1"}},
      {"http://10.0.0.7:65535/engines/a", {"10.0.0.7", 65535, "/engines/a", "10.0.0.7:65535"}},
      {"http://h/a/", {"h", 80, "/a", "h"}},
      {"http://h/a//", {"h", 80, "/a", "h"}},
      {"http://h/a%20b", {"h", 80, "/a%20b", "h"}},
      {"http://h/v1a", {"h", 80, "/v1a", "h"}},
      {"http://h/v1/engine", {"h", 80, "/v1/engine", "h"}},
      {"http://[::1]:8001/v", {"::1", 8001, "/v", "[::1]:8001"}},
      {"http://[FD00:0::7]", {"fd00::7", 80, "", "[FD00:0::7]"}},
      {"https://gpu-box", {"gpu-box", 443, "", "gpu-box", true}},
      {"HTTPS://gpu-box:8443/a", {"gpu-box", 8443, "/a", "gpu-box:8443", true}},
      {"unix:/run/vllm.sock", {"", 0, "", "localhost", false, "/run/vllm.sock"}},
      {"unix:/a b", {"", 0, "", "localhost", false, "/a b"}}};
  for (const auto& [text, expected] : table) {
    const auto parsed = parse_replica_url(text);
    const auto* url = std::get_if<ReplicaUrl>(&parsed);
    ASSERT_TRUE(url) << text << ": " << std::get<Problem>(parsed).text;
    EXPECT_EQ(url->host, expected.host) << text;
    EXPECT_EQ(url->port, expected.port) << text;
    EXPECT_EQ(url->prefix, expected.prefix) << text;
    EXPECT_EQ(url->authority, expected.authority) << text;
    EXPECT_EQ(url->tls, expected.tls) << text;
    EXPECT_EQ(url->unix_path, expected.unix_path) << text;
    const auto again = parse_replica_url(to_text(*url));
    ASSERT_TRUE(std::holds_alternative<ReplicaUrl>(again)) << to_text(*url);
    EXPECT_EQ(std::get<ReplicaUrl>(again), *url) << to_text(*url);
  }
}

TEST(ReplicaUrlText, IsRefusedWithTheReason) {
  constexpr auto scheme =
      "must begin with http://, https:// or unix:/, such as \"http://127.0.0.1:8001\" or \"unix:/run/vllm.sock\"";
  constexpr auto path =
      "must be unix: and the whole path of a socket, of at most 107 bytes, such as \"unix:/run/vllm.sock\"; no prefix "
      "can follow it";
  const std::string long_path = "unix:/" + std::string(107, 'x');
  constexpr auto https_base =
      "weir puts each request's own path, such as /v1/chat/completions, behind this; write the base url, "
      "\"https://h:443\"";
  constexpr auto https_shape = "must be https://HOST:PORT, with a path if need be, such as \"http://127.0.0.1:8001\"";
  constexpr auto user = "must hold no user name and no password; weir sends neither to a replica";
  constexpr auto query = "must hold no \"?\" and no \"#\"";
  constexpr auto host = "the host must be a name or an address, such as \"gpu-box\", \"10.0.0.7\" or \"[fd00::7]\"";
  constexpr auto port = "the port must be a whole number from 1 to 65535";
  constexpr auto shape = "must be http://HOST:PORT, with a path if need be, such as \"http://127.0.0.1:8001\"";
  const std::pair<const char*, const char*> table[] = {{"", scheme},
                                                       {"127.0.0.1:8001", scheme},
                                                       {"localhost:8001", scheme},
                                                       {"http:/h", scheme},
                                                       {"ftp://h", scheme},
                                                       {" http://h", scheme},
                                                       {"https://h:443/v1", https_base},
                                                       {"https://h /", https_shape},
                                                       {"unix:", path},
                                                       {"unix:a.sock", path},
                                                       {"unix://a.sock", path},
                                                       {"unix:/a/", path},
                                                       {"unix:/a\nb", path},
                                                       {long_path.c_str(), path},
                                                       {"UNIX:/a", scheme},
                                                       {"http://user@h", user},
                                                       {"http://user:secret@h:1", user},
                                                       {"http://h?x=1", query},
                                                       {"http://h/#", query},
                                                       {"http://", host},
                                                       {"http:///v1", host},
                                                       {"http://a%20b", host},
                                                       {"http://8001", host},
                                                       {"http://999.1.1.1:80", host},
                                                       {"http://127.1", host},
                                                       {"http://a,b", host},
                                                       {"http://[v1.x]", host},
                                                       {"http://h:", port},
                                                       {"http://h:0", port},
                                                       {"http://h:65536", port},
                                                       {"http://h:99999", port},
                                                       {"http://h:08001", port},
                                                       {"http://h:80x", port},
                                                       {"http://h /", shape},
                                                       {"http://h\r\nx", shape},
                                                       {"http://[::1", shape},
                                                       {"http://::1:80", host}};
  for (const auto& [text, expected] : table) {
    const auto parsed = parse_replica_url(text);
    const auto* problem = std::get_if<Problem>(&parsed);
    ASSERT_TRUE(problem) << text;
    EXPECT_EQ(problem->text, expected) << text;
  }
}

/// A user may write a url as clients want it (OpenAI's base_url); requests would then go to /v1/v1/chat/completions.
TEST(ReplicaUrlText, IsABaseUrlAndNotAnApi) {
  const std::pair<const char*, const char*> table[] = {{"http://127.0.0.1:8001/v1", "http://127.0.0.1:8001"},
                                                       {"http://GPU-Box:8001/v1/", "http://GPU-Box:8001"},
                                                       {"http://h/engines/a/v1", "http://h/engines/a"},
                                                       {"http://[::1]:8001/v1/chat/completions", "http://[::1]:8001"},
                                                       {"http://h/v1/completions", "http://h"}};
  for (const auto& [text, base] : table) {
    const auto parsed = parse_replica_url(text);
    const auto* problem = std::get_if<Problem>(&parsed);
    ASSERT_TRUE(problem) << text;
    EXPECT_EQ(problem->text,
              "weir puts each request's own path, such as /v1/chat/completions, behind this; write the base url, \"" +
                  std::string(base) + '"');
    EXPECT_TRUE(std::holds_alternative<ReplicaUrl>(parse_replica_url(base))) << base;
  }
}

TEST(ReplicaUrlText, IsShownWithoutCredentials) {
  EXPECT_EQ(without_credentials("http://user:secret@h:1/x"), "http://***@h:1/x");
  EXPECT_EQ(without_credentials("http://user:sec/ret@h"), "http://***@h");
  EXPECT_EQ(without_credentials("http://user:sec@ret@h"), "http://***@h");
  EXPECT_EQ(without_credentials("http://h:1/x"), "http://h:1/x");
  EXPECT_EQ(without_credentials("me@home"), "me@home");
  EXPECT_EQ(without_credentials("user:secret@h:1"), "***@h:1") << "the scheme was forgotten";
  EXPECT_EQ(without_credentials("http:/user:secret@h"), "***@h");
  EXPECT_EQ(without_credentials("user:secret@h://x"), "***@h://x");
  EXPECT_EQ(without_credentials("me@h://x"), "me@h://x");
  EXPECT_EQ(without_credentials("http://h:1/?key=secret"), "http://h:1/?***");
  EXPECT_EQ(without_credentials("http://h:1/v1#secret"), "http://h:1/v1#***");
  EXPECT_EQ(without_credentials("http://me:secret@h:1/x?key=secret"), "http://***@h:1/x?***");
  EXPECT_EQ(without_credentials("http://h/?key=sec@ret"), "http://***") << "either may be the secret";
  EXPECT_EQ(without_credentials("http://me:sec?ret@h"), "http://***");
  EXPECT_EQ(without_credentials("h:1/x?key=secret"), "h:1/x?***") << "the scheme was forgotten";
  EXPECT_EQ(without_credentials("/health?key=secret"), "/health?***");
  EXPECT_EQ(without_credentials("what?"), "what?");
  EXPECT_EQ(without_credentials("#1"), "#1");
  EXPECT_EQ(without_credentials(""), "");
}

}  // namespace
}  // namespace weir::config
