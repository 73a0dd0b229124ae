#include "proxy/control/admin_token.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace weir::proxy::control {
namespace {

bool bears(const std::vector<std::string_view>& authorization) { return bears_token(authorization, "s3cret-token"); }

TEST(AdminToken, IsBorneByOneFieldOfTheRightForm) {
  EXPECT_TRUE(bears({"Bearer s3cret-token"}));
  EXPECT_TRUE(bears({"bearer s3cret-token"})) << "RFC 9110, 11.1: schemes have no case";
  EXPECT_FALSE(bears({}));
  EXPECT_FALSE(bears({"Bearer s3cret-token", "Bearer s3cret-token"}));
  for (const auto* other :
       {"", "Bearer", "Bearer ", "s3cret-token", "Basic s3cret-token", "Bearer s3cret-toke", "Bearer s3cret-tokens",
        "Bearer S3cret-token", "Bearer  s3cret-token", "Bearers3cret-token"})
    EXPECT_FALSE(bears({other})) << other;
}

}  // namespace
}  // namespace weir::proxy::control
