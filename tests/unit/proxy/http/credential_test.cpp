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
           {"Authorization:\r\n", ""},
           {"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n", "a"}};
  for (const auto& [fields, credential] : rows) {
    const auto bytes = "GET / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
    const auto head = parse_request_head(bytes);
    ASSERT_TRUE(head) << fields;
    EXPECT_EQ(credential_of(*head), credential) << fields;
  }
}

}  // namespace
}  // namespace weir::proxy::http
