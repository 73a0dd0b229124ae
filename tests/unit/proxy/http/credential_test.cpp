#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "config/address.hpp"
#include "proxy/http/credential.hpp"

namespace weir::proxy::http {
namespace {

TEST(Credential, IsTheBearersElseTheApiKeysAndHasAnotherBesideItWhereTheFieldsDisagree) {
  const struct {
    std::string fields, credential, other;
  } rows[]{{"", "", ""},
           {"Authorization: Bearer k\r\n", "k", ""},
           {"authorization: bearer k\r\n", "k", ""},
           {"AUTHORIZATION: BEARER  k=\r\n", "k=", ""},
           {"x-api-key: k\r\n", "k", ""},
           {"X-API-Key: Bearer k\r\n", "Bearer k", ""},
           {"x-api-key: a\r\nAuthorization: Bearer b\r\n", "b", "a"},
           {"authorization: bearer a\r\nx-api-key: b\r\n", "a", "b"},
           {"Authorization: Bearer a\r\nx-api-key: a\r\n", "a", ""},
           {"Authorization: Bearer a\r\nx-api-key:\r\n", "a", ""},
           {"Authorization: Basic b\r\nx-api-key: a\r\n", "a", ""},
           {"Authorization: Bearer\r\nx-api-key: a\r\n", "a", ""},
           {"Authorization: Bearerk\r\n", "", ""},
           {"Authorization: k\r\n", "", ""},
           {"Authorization:\r\n", "", ""}};
  for (const auto& [fields, credential, other] : rows) {
    const auto bytes = "GET / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
    const auto head = parse_request_head(bytes);
    ASSERT_TRUE(head) << fields;
    EXPECT_EQ(credential_of(*head), credential) << fields;
    EXPECT_EQ(other_credential_of(*head), other) << fields;
  }
}

TEST(Credential, IsFoundWhereverItStands) {
  const std::string made = "weir-" + std::string(43, 'x');
  EXPECT_TRUE(holds_key("alices-key", "alices-key"));
  EXPECT_TRUE(holds_key("Token alices-key;", "alices-key"));
  EXPECT_TRUE(holds_key("a=b; session=" + made + "; c", ""));
  EXPECT_TRUE(holds_key("weir-x " + made, "alices-key"));
  EXPECT_TRUE(holds_key("key", "key"));
  EXPECT_FALSE(holds_key("monkey", "key")) << "it is too short to be more than a part of a word";
  EXPECT_FALSE(holds_key("x1234567x", "1234567"));
  EXPECT_TRUE(holds_key("x12345678x", "12345678"));
  EXPECT_FALSE(holds_key("alices-ke", "alices-key"));
  EXPECT_FALSE(holds_key(made.substr(1), ""));
  EXPECT_FALSE(holds_key(made.substr(0, 47), ""));
  EXPECT_FALSE(holds_key("", ""));
  EXPECT_EQ(
      without_credentials(
          "/v1/x?a=alices-key&b=1&c=%61lices%2Dkey&alices-key&d=xalices-keyx&alices-key=1&%61lices-key=", "alices-key"),
      "/v1/x?b=1");
}

TEST(Credential, StandsInFieldsThatAreNamedForIt) {
  for (const auto* name : {"Authorization", "x-api-key", "API-KEY", "X-Goog-Api-Key", "Ocp-Apim-Subscription-Key",
                           "x-auth-token", "x-access-token", "X-Amz-Security-Token", "Cookie"})
    EXPECT_TRUE(is_credential(field_name(name))) << name;
  for (const auto* name : {"x-request-id", "key", "content-type", "api-key2", "traceparent", ""})
    EXPECT_FALSE(is_credential(field_name(name))) << name;
}

TEST(Credential, IsTakenOutOfATarget) {
  const struct {
    std::string target, kept;
  } rows[]{{"/v1/x", "/v1/x"},
           {"/v1/x?", "/v1/x?"},
           {"/v1/x?a=b&c", "/v1/x?a=b&c"},
           {"/v1/x?key=s", "/v1/x"},
           {"/v1/x?key=s&a=b", "/v1/x?a=b"},
           {"/v1/x?a=b&Api_Key=s", "/v1/x?a=b"},
           {"/v1/x?a=b&token=s&c=d", "/v1/x?a=b&c=d"},
           {"/v1/x?api-key=s&apikey=s&access_token=s&token", "/v1/x"},
           {"/v1/x?a=key=s&keys=1&monkey=2", "/v1/x?a=key=s&keys=1&monkey=2"},
           {"/v1/x?a=?key=s&key=?s&&b", "/v1/x?a=?key=s&&b"},
           {"*", "*"}};
  for (const auto& [target, kept] : rows) EXPECT_EQ(without_credentials(target), kept) << target;
}

TEST(Credential, MayBeAKeyUnlessUsualClientsSendIt) {
  for (const auto* text : {"0123456789abcdef", "sk-proj-aB3xYz90LmNoPq", "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
                           "q83vEjRWeJCrze+/Asd0==", "q83vEjRWeJCrze+Asd0/7", "abcdefghijklmno1"})
    EXPECT_TRUE(may_be_key(text)) << text;
  for (const auto* text : {"", "0123456789abcde", "application/json", "text/event-stream", "python-requests/2.31.0",
                           "Go-http-client/1.1", "OpenAI/Python 1.54.4", "0123456789abcdef 1", "0123456789abcdef\t1",
                           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "correct-horse-battery-staple"})
    EXPECT_FALSE(may_be_key(text)) << text;
}

TEST(Credential, AKeyIsCutOutOfAHeadAndAllElseStays) {
  const std::string key = "0123456789abcdef";
  const std::string shown =
      "Authorization: Bearer " + key + "\r\nx-api-key: " + key + "\r\nProxy-Authorization: " + key + "\r\n";
  const auto is_key = [&](std::string_view text) { return text == key; };
  const struct {
    std::string target, fields, kept_target, kept_fields;
  } rows[]{{"/x", "A: " + key + "\r\n", "/x", ""},
           {"/x?a=1&b=" + key + "&c=2", "A: b\r\nB:  Token " + key + " \r\nC: d\r\n", "/x?a=1&c=2", "A: b\r\nC: d\r\n"},
           {"/x?" + key + "&%30123456789abcdef&b=%30123456789abcde%66", "", "/x", ""},
           {"http://h/x?" + key + "=1", "", "http://h/x", ""},
           {"http://h", "A: " + key + "\r\n", "http://h", ""},
           {"/x?a=1" + key, "A: x" + key + "\r\nB: " + key + " b\r\n", "/x?a=1" + key,
            "A: x" + key + "\r\nB: " + key + " b\r\n"},
           {"/x", shown, "/x", shown}};
  for (const auto& [target, fields, kept_target, kept_fields] : rows) {
    std::string bytes = "GET ";
    bytes.append(target).append(" HTTP/1.1\r\nHost: h\r\n").append(fields).append("\r\n");
    const auto before = bytes;
    const auto head = parse_request_head(bytes);
    ASSERT_TRUE(head) << bytes;
    const bool cut = cut_keys(bytes, *head, is_key);
    std::string kept = "GET ";
    kept.append(kept_target).append(" HTTP/1.1\r\nHost: h\r\n").append(kept_fields).append("\r\n");
    EXPECT_EQ(bytes, kept);
    EXPECT_EQ(cut, bytes != before);
  }
}

// A client without a key could have a loop hash for it.
TEST(Credential, AHeadCostsABoundedNumberOfLookUps) {
  for (const char* parameter :
       {"A0000000000000000", "a=A0000000000000000", "A0000000000000000=%41", "%410000000000000000=1"}) {
    std::string bytes = "GET /health?";
    for (int i = 0; i < 300; ++i) bytes.append(i > 0 ? "&" : "").append(parameter);
    bytes += " HTTP/1.1\r\nHost: h\r\n\r\n";
    const auto head = parse_request_head(bytes);
    ASSERT_TRUE(head);
    int asked = 0;
    EXPECT_TRUE(cut_keys(bytes, *head, [&](std::string_view) { return ++asked < 0; }));
    EXPECT_EQ(asked, 64);
    EXPECT_TRUE(parse_request_head(bytes));
  }
}

}  // namespace

// The client behind proxies.

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

TEST(RequestId, IsTheClientsOnlyWhereItIsHarmless) {
  for (const std::string good : {"a", "A.b_c-9", "0123456789abcdef"}) EXPECT_EQ(valid_request_id(good), good);
  EXPECT_TRUE(valid_request_id(std::string(128, 'x')));
  for (const std::string bad : {"", " ", "a b", "a\"b", "a/b", "a\r\nX: y", "\xc3\xa4", "a,b", "<a>"})
    EXPECT_FALSE(valid_request_id(bad)) << bad;
  EXPECT_FALSE(valid_request_id(std::string(129, 'x')));
}

}  // namespace
}  // namespace weir::proxy::http
