// A head may cost only so much before it is refused.
#include <gtest/gtest.h>

#include <string>

#include "proxy/http/head.hpp"

namespace weir::proxy::http {
namespace {

std::string with_connection(const std::string& value) {
  return "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: " + value + "\r\n\r\n";
}

TEST(HeadLength, EndsAtABareLineFeedSoThatItIsRefusedAtOnce) {
  const std::string head = "GET / HTTP/1.1\nHost: x\n\n";
  ASSERT_EQ(head_length(head, 0), head.find('\n') + 1);
  EXPECT_EQ(parse_request_head(head.substr(0, *head_length(head, 0))).error(), HeadError::malformed_line);
  EXPECT_EQ(head_length("GET / HTTP/1.1\r\nA: b\n", 0), 21U);
  EXPECT_EQ(head_length("\n", 0), 1U);
}

TEST(HeadLength, IsTheSameForEverySplit) {
  for (const std::string head : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\n", "\r\n\r\n"}) {
    const std::string bytes = head + "body\r\n\r\n";
    for (std::size_t seen = 0; seen < head.size(); ++seen) {
      EXPECT_EQ(head_length(bytes.substr(0, seen), 0), std::nullopt);
      EXPECT_EQ(head_length(bytes, seen), head.size());
    }
  }
}

TEST(RequestHead, MayNameSoManyConnectionOptions) {
  EXPECT_TRUE(parse_request_head(with_connection(std::string(max_connection, 'a'))));
  EXPECT_EQ(parse_request_head(with_connection(std::string(max_connection + 1, 'a'))).error(),
            HeadError::malformed_line);
  const std::string twice = std::string(max_connection, 'a') + "\r\nConnection: a";
  EXPECT_EQ(parse_request_head(with_connection(twice)).error(), HeadError::malformed_line);
}

}  // namespace
}  // namespace weir::proxy::http
