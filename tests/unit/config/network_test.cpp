#include "config/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <tuple>

namespace weir::config {
namespace {

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

}  // namespace
}  // namespace weir::config
