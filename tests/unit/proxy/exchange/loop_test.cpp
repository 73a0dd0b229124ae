#include <gtest/gtest.h>

#include <set>
#include <string>

#include "metrics/wire/request/inspector.hpp"
#include "proxy/exchange/loop.hpp"

namespace weir::proxy::exchange {
namespace {

using What = config::FairBy::What;

constexpr SipKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};

net::PeerAddress ipv4(unsigned char last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}; }
net::PeerAddress ipv6(unsigned char network, unsigned char host) {
  return {0x20, 1, 0xd, 0xb8, 0, 0, 0, network, 0, 0, 0, 0, 0, 0, 0, host};
}

http::RequestHead head(std::vector<http::HeaderField> fields) {
  http::RequestHead one;
  one.fields = std::move(fields);
  return one;
}

std::uint64_t of(What what, const http::RequestHead& request, const net::PeerAddress& address,
                 const std::string& name = "x-user", std::string_view key_name = "") {
  return fair_key(key, {what, what == What::header ? name : ""}, request, address, key_name);
}

TEST(SipKey, IsRandom) { EXPECT_NE(make_sip_key(), make_sip_key()); }

TEST(SenderOf, IsTheCredentialWhereThereIsOne) {
  const auto of = [](const http::RequestHead& request, const net::PeerAddress& address, std::string_view name = "") {
    return sender_of(key, request, address, name);
  };
  const auto bearer = head({{"Authorization", "Bearer a"}}), other = head({{"authorization", "Bearer b"}});
  const auto api_key = head({{"X-Api-Key", "Bearer a"}}),
             both = head({{"x-api-key", "b"}, {"Authorization", "Bearer a"}});
  EXPECT_EQ(of(bearer, ipv4(1)), of(bearer, ipv4(2))) << "wherever it comes from";
  EXPECT_NE(of(bearer, ipv4(1)), of(other, ipv4(1)));
  EXPECT_EQ(of(bearer, ipv4(1)), of(api_key, ipv4(1)));
  EXPECT_EQ(of(bearer, ipv4(1)), of(both, ipv4(1))) << "Authorization goes first";
  EXPECT_EQ(of(bearer, ipv4(1), "alice"), of(other, ipv4(2), "alice")) << "a key that weir knows stands for it";
  EXPECT_NE(of(head({}), ipv4(1)), of(head({}), ipv4(2)));
}

TEST(SessionOf, IsTheFirstThatTheRequestHas) {
  using By = config::SessionBy;
  const std::vector<By> by{{By::What::header, "x-session-id"}, {By::What::body, "user"}, {By::What::key, ""}};
  metrics::Names names{};
  const auto with = head({{"X-Session-Id", "a"}}), without = head({{"x-session-id", ""}});
  EXPECT_EQ(session_of(by, without, names, ""), 0u);
  const auto of_key = session_of(by, without, names, "alice");
  names[static_cast<std::size_t>(metrics::NamedBy::user)] = 7;
  EXPECT_EQ(session_of(by, without, names, "alice"), 7u);
  const auto of_header = session_of(by, with, names, "alice");
  EXPECT_EQ(of_header, session_of(by, with, {}, ""));
  EXPECT_NE(of_header, session_of(by, head({{"x-session-id", "b"}}), names, ""));
  EXPECT_EQ((std::set<std::uint64_t>{0, 7, of_key, of_header}.size()), 4u);
  EXPECT_EQ(session_of({}, with, names, "alice"), 0u);
}

/// The settings and the reader of requests each have a list of members, in one order.
TEST(SessionOf, KnowsEachMemberThatTheSettingsKnow) {
  for (const auto member : config::session_members) {
    metrics::wire::RequestInspector inspector(metrics::Api::openai_chat, "POST", "/v1/chat/completions");
    inspector.feed("{\"" + std::string(member) + "\":\"a\"}");
    const std::vector<config::SessionBy> by{{config::SessionBy::What::body, std::string(member)}};
    EXPECT_EQ(session_of(by, head({}), *inspector.finish().names, ""), metrics::hash_of_name("a")) << member;
  }
}

TEST(FairKey, AMadeUpCredentialBuysNoShare) {
  const auto bearer = head({{"Authorization", "Bearer a"}}), other = head({{"authorization", "Bearer b"}}),
             api_key = head({{"x-api-key", "c"}}), none = head({});
  for (const auto& request : {bearer, other, api_key}) {
    EXPECT_EQ(of(What::key, request, ipv4(1)), of(What::key, none, ipv4(1)));
    EXPECT_NE(of(What::key, request, ipv4(1)), of(What::key, request, ipv4(2)));
  }
  EXPECT_NE(of(What::header, bearer, ipv4(1), "authorization"), of(What::header, other, ipv4(1), "authorization"))
      << "where the operator says so, it does";
}

TEST(FairKey, IsTheNamesOfTheKeyWhereWeirKnowsIt) {
  const auto one = head({{"Authorization", "Bearer a"}}), other = head({{"x-api-key", "b"}}),
             named = head({{"x-user", "u"}});
  const auto by_name = [](What what, const http::RequestHead& request, std::string_view name) {
    return of(what, request, ipv4(1), "x-user", name);
  };
  EXPECT_EQ(by_name(What::key, one, "alice"), by_name(What::key, other, "alice")) << "whatever it is sent as";
  EXPECT_NE(by_name(What::key, one, "alice"), by_name(What::key, one, "bob"));
  EXPECT_NE(by_name(What::key, one, "alice"), by_name(What::key, one, ""));
  EXPECT_EQ(by_name(What::address, one, "alice"), by_name(What::address, one, "bob"));
  EXPECT_EQ(by_name(What::header, named, "alice"), by_name(What::header, named, "bob"));
}

TEST(FairKey, IsTheAddressesWhereNothingElseDecides) {
  const auto none = head({}), bearer = head({{"Authorization", "Bearer a"}});
  for (const auto what : {What::key, What::address, What::header}) {
    EXPECT_EQ(of(what, none, ipv4(1)), of(What::address, none, ipv4(1)));
    EXPECT_NE(of(what, none, ipv4(1)), of(what, none, ipv4(2)));
    EXPECT_EQ(of(what, none, ipv6(1, 1)), of(what, none, ipv6(1, 2))) << "one client has the whole network";
    EXPECT_NE(of(what, none, ipv6(1, 1)), of(what, none, ipv6(2, 1)));
  }
  EXPECT_EQ(of(What::address, bearer, ipv4(1)), of(What::address, none, ipv4(1)));
}

TEST(FairKey, IsTheHeadersThatIsNamed) {
  const auto a = head({{"X-User", "a"}, {"Authorization", "Bearer x"}}), b = head({{"x-user", "b"}});
  EXPECT_EQ(of(What::header, a, ipv4(1)), of(What::header, head({{"x-user", "a"}}), ipv4(2)));
  EXPECT_NE(of(What::header, a, ipv4(1)), of(What::header, b, ipv4(1)));
}

TEST(FairKey, OfOneKindIsNotThatOfAnother) {
  const std::string address("\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1", 16);
  const auto said = head({{"Authorization", address}, {"x-user", address}});
  const std::set<std::uint64_t> all{of(What::key, said, ipv4(1), "", address), of(What::address, said, ipv4(1)),
                                    of(What::header, said, ipv4(1)), sender_of(key, said, ipv4(1), "")};
  EXPECT_EQ(all.size(), 4u);
}

TEST(PrefixSeed, IsOfAClientOnlyWhereClientsAreKeptApart) {
  using config::PrefixIsolation;
  EXPECT_EQ(prefix_seed(key, PrefixIsolation::none, "alice"), prefix_seed(key, PrefixIsolation::none, "bob"));
  EXPECT_EQ(prefix_seed(key, PrefixIsolation::key, "alice"), prefix_seed(key, PrefixIsolation::key, "alice"));
  EXPECT_NE(prefix_seed(key, PrefixIsolation::key, "alice"), prefix_seed(key, PrefixIsolation::key, "bob"));
  EXPECT_NE(prefix_seed(key, PrefixIsolation::key, "alice"), prefix_seed({1, 2}, PrefixIsolation::key, "alice"));
}

}  // namespace
}  // namespace weir::proxy::exchange
