#include "proxy/http/field_name.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proxy/http/head.hpp"

namespace weir::proxy::http {
namespace {

const std::vector<std::pair<std::string, FieldName>> known{
    {"Accept-Encoding", FieldName::accept_encoding},
    {"Api-Key", FieldName::api_key},
    {"Authorization", FieldName::authorization},
    {"Cache-Control", FieldName::cache_control},
    {"Close", FieldName::close},
    {"Connection", FieldName::connection},
    {"Content-Encoding", FieldName::content_encoding},
    {"Content-Length", FieldName::content_length},
    {"Content-Type", FieldName::content_type},
    {"Cookie", FieldName::cookie},
    {"Expect", FieldName::expect},
    {"Forwarded", FieldName::forwarded},
    {"Host", FieldName::host},
    {"Keep-Alive", FieldName::keep_alive},
    {"Ocp-Apim-Subscription-Key", FieldName::ocp_apim_subscription_key},
    {"Origin", FieldName::origin},
    {"Proxy-Authenticate", FieldName::proxy_authenticate},
    {"Proxy-Authorization", FieldName::proxy_authorization},
    {"Proxy-Connection", FieldName::proxy_connection},
    {"TE", FieldName::te},
    {"Trailer", FieldName::trailer},
    {"Transfer-Encoding", FieldName::transfer_encoding},
    {"Upgrade", FieldName::upgrade},
    {"Via", FieldName::via},
    {"X-Accel-Buffering", FieldName::x_accel_buffering},
    {"X-Access-Token", FieldName::x_access_token},
    {"X-Amz-Security-Token", FieldName::x_amz_security_token},
    {"X-Api-Key", FieldName::x_api_key},
    {"X-Auth-Token", FieldName::x_auth_token},
    {"X-Forwarded-For", FieldName::x_forwarded_for},
    {"X-Goog-Api-Key", FieldName::x_goog_api_key},
    {"X-Real-IP", FieldName::x_real_ip},
    {"X-Request-Id", FieldName::x_request_id},
    {"X-Weir-Id", FieldName::x_weir_id},
    {"X-Weir-Replica", FieldName::x_weir_replica},
    {"X-Weir-Shadow", FieldName::x_weir_shadow},
};

/// The rule that field_name() makes fast.
FieldName naive(std::string_view text) {
  const auto found = std::ranges::find_if(known, [text](const auto& one) { return same_token(one.first, text); });
  return found == known.end() ? FieldName::other : found->second;
}

TEST(FieldName, KnowsEachNameInAnyCase) {
  EXPECT_EQ(known.size(), static_cast<std::size_t>(FieldName::x_weir_shadow)) << "the list here is whole";
  for (auto [text, name] : known) {
    EXPECT_EQ(field_name(text), name) << text;
    std::ranges::transform(text, text.begin(), [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
    EXPECT_EQ(field_name(text), name) << text;
  }
}

TEST(FieldName, IsThatOfANaiveSearchIfOneByteIsAnother) {
  for (const auto& [text, name] : known) {
    for (std::size_t at = 0; at < text.size(); ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        auto other = text;
        other[at] = static_cast<char>(byte);
        ASSERT_EQ(field_name(other), naive(other)) << other;
      }
    }
  }
}

TEST(FieldName, IsThatOfANaiveSearchIfTheLengthIsAnother) {
  for (const auto& [text, name] : known) {
    for (std::size_t end = 0; end <= text.size(); ++end) {
      ASSERT_EQ(field_name(text.substr(0, end)), naive(text.substr(0, end))) << text.substr(0, end);
      ASSERT_EQ(field_name(text.substr(end)), naive(text.substr(end))) << text.substr(end);
    }
    for (const auto& more : {std::string(1, '\0'), std::string(40, '\0'), std::string("-"), std::string("e")})
      ASSERT_EQ(field_name(text + more), FieldName::other) << text;
  }
}

TEST(FieldName, IsThatOfANaiveSearchForRandomNames) {
  std::mt19937 random(20261124);
  const auto below = [&random](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  constexpr std::string_view letters = "aehnotrxyACEHNORTXY-_0\r";
  std::size_t found = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    if (below(2) == 0) {
      text = known[below(known.size())].first;
      for (auto& c : text)
        if (below(2) == 0 && c != '-') c = static_cast<char>(c ^ 0x20);
      for (auto changes = below(3); changes > 0; --changes) text[below(text.size())] = letters[below(letters.size())];
    } else {
      for (auto size = below(30); size > 0; --size) text += letters[below(letters.size())];
    }
    const auto name = naive(text);
    found += name != FieldName::other;
    ASSERT_EQ(field_name(text), name) << text;
  }
  EXPECT_GT(found, 20'000U);
}

}  // namespace
}  // namespace weir::proxy::http
