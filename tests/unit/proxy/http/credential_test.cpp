#include "proxy/http/credential.hpp"

#include <gtest/gtest.h>

#include <string>

namespace weir::proxy::http {
namespace {

TEST(Credential, IsTheBearersElseTheApiKeys) {
  const struct {
    std::string fields, credential;
  } rows[]{{"", ""},
           {"Authorization: Bearer k\r\n", "k"},
           {"authorization: bearer k\r\n", "k"},
           {"AUTHORIZATION: BEARER  k=\r\n", "k="},
           {"x-api-key: k\r\n", "k"},
           {"X-API-Key: Bearer k\r\n", "Bearer k"},
           {"x-api-key: a\r\nAuthorization: Bearer b\r\n", "b"},
           {"Authorization: Basic b\r\nx-api-key: a\r\n", "a"},
           {"Authorization: Bearer\r\nx-api-key: a\r\n", "a"},
           {"Authorization: Bearerk\r\n", ""},
           {"Authorization: k\r\n", ""},
           {"Authorization:\r\n", ""}};
  for (const auto& [fields, credential] : rows) {
    const auto bytes = "GET / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
    const auto head = parse_request_head(bytes);
    ASSERT_TRUE(head) << fields;
    EXPECT_EQ(credential_of(*head), credential) << fields;
  }
}

TEST(Credential, HasAnotherBesideItWhereTheFieldsDisagree) {
  const struct {
    std::string fields, other;
  } rows[]{{"", ""},
           {"Authorization: Bearer a\r\n", ""},
           {"x-api-key: a\r\n", ""},
           {"Authorization: Bearer a\r\nx-api-key: a\r\n", ""},
           {"Authorization: Bearer a\r\nx-api-key:\r\n", ""},
           {"Authorization: Basic b\r\nx-api-key: a\r\n", ""},
           {"Authorization: Bearer a\r\nx-api-key: b\r\n", "b"},
           {"x-api-key: b\r\nauthorization: bearer a\r\n", "b"}};
  for (const auto& [fields, other] : rows) {
    const auto bytes = "GET / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
    const auto head = parse_request_head(bytes);
    ASSERT_TRUE(head) << fields;
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
    EXPECT_TRUE(is_credential(name)) << name;
  for (const auto* name : {"x-request-id", "key", "content-type", "api-key2", "traceparent", ""})
    EXPECT_FALSE(is_credential(name)) << name;
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

}  // namespace
}  // namespace weir::proxy::http
