#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "proxy/admin/guard.hpp"

namespace weir::proxy::admin {
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

// A page in a browser must not change weir, whatever name it has for its own site.

namespace {

using ::testing::HasSubstr;

const std::optional<config::ListenAddress> at_loopback{{"127.0.0.1", 9091}}, elsewhere{{"10.0.0.5", 9091}};
constexpr std::string_view json_type = "application/json";

TEST(ChangeGuard, KnowsItsOwnHosts) {
  for (const auto host :
       {"127.0.0.1:9091", "127.0.0.1", "127.8.9.1:80", "localhost:9091", "LocalHost", "[::1]:9091", "[::1]"})
    EXPECT_EQ(why_no_change({{host}, {}, {json_type}}, at_loopback), "") << host;
  EXPECT_EQ(why_no_change({{"10.0.0.5:9091"}, {}, {json_type}}, elsewhere), "");
  EXPECT_NE(why_no_change({{"10.0.0.5:9091"}, {}, {json_type}}, at_loopback), "");
  EXPECT_NE(why_no_change({{"10.0.0.5:9091"}, {}, {json_type}}, std::nullopt), "");
}

TEST(ChangeGuard, RefusesStrangeHosts) {
  const std::vector<std::vector<std::string_view>> strange{{},
                                                           {""},
                                                           {"evil.example"},
                                                           {"evil.example:9091"},
                                                           {"127.0.0.1.evil.example"},
                                                           {"localhost.evil.example"},
                                                           {"localhost:9091@evil.example"},
                                                           {"localhost:evil"},
                                                           {"localhost:123456"},
                                                           {"[::1"},
                                                           {"[::1]x"},
                                                           {"[::1]:x"},
                                                           {"::1"},
                                                           {"127.0.0.1", "evil.example"},
                                                           {"127.0.0.1", "127.0.0.1"},
                                                           {"localhost,evil.example"},
                                                           {" localhost"},
                                                           {"0x7f.1"},
                                                           {"2130706433"},
                                                           {"localhost."},
                                                           {"0.0.0.0"}};
  for (const auto& host : strange)
    EXPECT_THAT(why_no_change({host, {}, {json_type}}, at_loopback), HasSubstr("Host"))
        << (host.empty() ? "" : host[0]);
}

TEST(ChangeGuard, RefusesOtherOrigins) {
  const std::string_view host = "127.0.0.1:9091";
  EXPECT_EQ(why_no_change({{host}, {"http://127.0.0.1:9091"}, {json_type}}, at_loopback), "");
  for (const auto origin : {"http://evil.example", "null", "", "https://127.0.0.1:9091", "http://127.0.0.1",
                            "http://localhost:9091", "http://127.0.0.1:9091.evil.example", "http://127.0.0.1:90910"})
    EXPECT_THAT(why_no_change({{host}, {origin}, {json_type}}, at_loopback), HasSubstr("Origin")) << origin;
  EXPECT_THAT(why_no_change({{host}, {"http://127.0.0.1:9091", "null"}, {json_type}}, at_loopback),
              HasSubstr("Origin"));
}

TEST(ChangeGuard, WantsJson) {
  const auto why = [](std::vector<std::string_view> types) {
    return why_no_change({{"localhost"}, {}, std::move(types)}, at_loopback);
  };
  for (const auto type :
       {"application/json", "Application/JSON", "application/json; charset=utf-8", "application/json ;x"})
    EXPECT_EQ(why({type}), "") << type;
  for (const auto type : {"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                          "application/jsonp", "text/plain; application/json", "application/json, text/plain"})
    EXPECT_THAT(why({type}), HasSubstr("Content-Type")) << type;
  EXPECT_THAT(why({}), HasSubstr("Content-Type"));
  EXPECT_THAT(why({json_type, "text/plain"}), HasSubstr("Content-Type"));
}

}  // namespace
}  // namespace weir::proxy::admin
