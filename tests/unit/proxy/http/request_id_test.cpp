#include "proxy/http/request_id.hpp"

#include <gtest/gtest.h>

#include <string>

namespace weir::proxy::http {
namespace {

TEST(RequestId, IsTheClientsOnlyWhereItIsHarmless) {
  for (const std::string good : {"a", "A.b_c-9", "0123456789abcdef"}) EXPECT_EQ(valid_request_id(good), good);
  EXPECT_TRUE(valid_request_id(std::string(128, 'x')));
  for (const std::string bad : {"", " ", "a b", "a\"b", "a/b", "a\r\nX: y", "\xc3\xa4", "a,b", "<a>"})
    EXPECT_FALSE(valid_request_id(bad)) << bad;
  EXPECT_FALSE(valid_request_id(std::string(129, 'x')));
}

}  // namespace
}  // namespace weir::proxy::http
