// The client behind proxies.
#include "proxy/http/forwarded.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "config/network.hpp"

namespace weir::proxy::http {
namespace {

net::PeerAddress address(const std::string& text) {
  const auto bytes = config::parse_address_bytes(text);
  EXPECT_TRUE(bytes) << text;
  return bytes.value_or(net::PeerAddress{});
}

std::string text(const net::PeerAddress& one) { return config::to_text(config::Network{one}); }

const std::vector<config::Network> trusted{std::get<config::Network>(config::parse_network("10.0.0.0/8")),
                                           std::get<config::Network>(config::parse_network("fd00::/8"))};

/// Returns the client's address where a peer sends these fields.
std::string client_of(const std::string& peer, const std::string& fields,
                      const std::vector<config::Network>& believed = trusted) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
  const auto head = parse_request_head(bytes);
  EXPECT_TRUE(head) << bytes;
  return text(client_address(address(peer), *head, believed));
}

TEST(Forwarded, TheClientIsTheLastWhoIsNotTrusted) {
  const std::tuple<const char*, const char*, const char*> table[] = {
      {"10.0.0.1", "X-Forwarded-For: 1.2.3.4\r\n", "1.2.3.4"},
      {"192.0.2.1", "X-Forwarded-For: 1.2.3.4\r\n", "192.0.2.1"},
      {"10.0.0.1", "", "10.0.0.1"},
      {"10.0.0.1", "X-Forwarded-For: 6.6.6.6, 1.2.3.4, 10.0.0.9, 10.0.0.2\r\n", "1.2.3.4"},
      {"10.0.0.1", "X-Forwarded-For: 10.0.0.7, 10.0.0.9\r\n", "10.0.0.7"},
      {"10.0.0.1", "X-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 1.2.3.4\r\n", "1.2.3.4"},
      {"10.0.0.1", "X-Forwarded-For: 6.6.6.6, 1.2.3.4\r\nX-Forwarded-For: 10.0.0.2\r\n", "1.2.3.4"},
      {"10.0.0.1", "X-Forwarded-For: 6.6.6.6, junk, 10.0.0.9\r\n", "10.0.0.9"},
      {"10.0.0.1", "X-Forwarded-For: junk\r\n", "10.0.0.1"},
      {"10.0.0.1", "X-Forwarded-For: 1.2.3.4, ,\t10.0.0.9 ,\r\n", "1.2.3.4"},
      {"10.0.0.1", "X-Forwarded-For:\r\n", "10.0.0.1"},
      {"10.0.0.1", "X-Forwarded-For: 1.2.3.4:5678\r\n", "1.2.3.4"},
      {"10.0.0.1", "X-Forwarded-For: 2001:db8::7\r\n", "2001:db8::7"},
      {"10.0.0.1", "X-Forwarded-For: [2001:db8::7]:443, fd00::1\r\n", "2001:db8::7"},
      {"fd00::5", "X-Forwarded-For: [2001:db8::7]\r\n", "2001:db8::7"},
      {"10.0.0.1", "X-Forwarded-For: 1.2.3.4:\r\n", "10.0.0.1"},
      {"10.0.0.1", "X-Forwarded-For: 1.2.3.4:x\r\n", "10.0.0.1"},
      {"10.0.0.1", "X-Forwarded-For: 1.2.3.4:123456\r\n", "10.0.0.1"},
      {"10.0.0.1", "X-Forwarded-For: [1.2.3.4]\r\n", "10.0.0.1"},
      {"10.0.0.1", "X-Forwarded-For: [2001:db8::7\r\n", "10.0.0.1"},
      {"10.0.0.1", "X-Forwarded-For: \"1.2.3.4\"\r\n", "10.0.0.1"},
      {"10.0.0.1", "X-Forwarded-Fo: 1.2.3.4\r\n", "10.0.0.1"},
      {"10.0.0.1", "Forwarded: for=1.2.3.4\r\n", "10.0.0.1"}};
  for (const auto& [peer, fields, client] : table) EXPECT_EQ(client_of(peer, fields), client) << peer << ' ' << fields;
}

TEST(Forwarded, WithoutTrustNobodyIsBelieved) {
  EXPECT_EQ(client_of("10.0.0.1", "X-Forwarded-For: 1.2.3.4\r\n", {}), "10.0.0.1");
}

TEST(Forwarded, AProxyAtAUnixSocketIsBelievedByItsName) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n";
  const auto head = parse_request_head(bytes);
  const std::vector<config::Network> by_socket{config::Network{}};
  EXPECT_EQ(text(client_address({}, *head, by_socket)), "1.2.3.4");
  EXPECT_EQ(client_address({}, *head, trusted), net::PeerAddress{});
}

TEST(Forwarded, TheNextOneIsToldTheWay) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n";
  const auto head = parse_request_head(bytes);
  EXPECT_EQ(forwarded_for(*head, {true, "10.0.0.1"}), "6.6.6.6, 1.2.3.4, 10.0.0.1");
  EXPECT_EQ(forwarded_for(*head, {false, "fd00::1"}), "fd00::1");
  EXPECT_EQ(forwarded_for(*head, {true, {}}), "6.6.6.6, 1.2.3.4");
  EXPECT_EQ(forwarded_for(*head, {}), "");
  EXPECT_EQ(in_forwarded_for(address("10.0.0.1")), "10.0.0.1");
  EXPECT_EQ(in_forwarded_for(address("fd00::1")), "fd00::1");
  EXPECT_EQ(in_forwarded_for({}), "");
}

}  // namespace
}  // namespace weir::proxy::http
