// A page in a browser must not change weir, whatever name it has for its own site.
#include "proxy/control/change_guard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::proxy::control {
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
}  // namespace weir::proxy::control
