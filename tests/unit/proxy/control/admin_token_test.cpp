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

TEST(WrongTokens, SlowAnAddressAfterAFewUntilTheyAreForgiven) {
  WrongTokens wrong;
  const net::PeerAddress one{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1}, other{};
  const metrics::Moment start{std::chrono::hours(1)};
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(wrong.slows(one, start));
    wrong.add(one, start);
  }
  EXPECT_TRUE(wrong.slows(one, start));
  EXPECT_FALSE(wrong.slows(other, start));
  EXPECT_FALSE(wrong.slows(one, start + std::chrono::seconds(2)));
}

TEST(WrongTokens, AreSaidOnceAMinuteWithTheirNumberAndTheAddress) {
  WrongTokens wrong;
  const net::PeerAddress one{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1};
  metrics::Moment now{std::chrono::hours(1)};
  EXPECT_EQ(wrong.add(one, now),
            "a wrong token was sent to the admin listener from 192.0.2.1 (said at most once a minute)");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(wrong.add(one, now + std::chrono::seconds(59)), "");
  EXPECT_EQ(wrong.add({}, now + std::chrono::seconds(60)),
            "a wrong token was sent to the admin listener from a Unix-domain socket, and 5 more since this was last "
            "said (said at most once a minute)");
}

}  // namespace
}  // namespace weir::proxy::control
