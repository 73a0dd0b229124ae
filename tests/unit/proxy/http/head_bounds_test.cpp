// A head may cost only so much before it is refused.
#include <gtest/gtest.h>

#include <string>

#include "proxy/http/head.hpp"

namespace weir::proxy::http {
namespace {

TEST(HeadLength, EndsAtABareLineFeedSoThatItIsRefusedAtOnce) {
  const std::string head = "GET / HTTP/1.1\nHost: x\n\n";
  ASSERT_EQ(head_length(head, 0), head.find('\n') + 1);
  EXPECT_FALSE(parse_request_head(head.substr(0, *head_length(head, 0))));
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

}  // namespace
}  // namespace weir::proxy::http
