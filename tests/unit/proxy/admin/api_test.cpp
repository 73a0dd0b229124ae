// The answers of the admin listener, and how commands read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <boost/json.hpp>
#include <random>
#include <vector>

#include "proxy/admin/api.hpp"
#include "proxy/commands/client.hpp"
#include "tests/unit/proxy/said.hpp"

namespace weir::proxy::admin {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Api : public ::testing::Test {
 protected:
  static config::Settings settings() {
    config::Pool pool;
    pool.name = "chat";
    for (const auto* name : {"a", "b"}) {
      config::Replica one;
      one.name = one.config = name;
      one.api_key = "planted-secret";
      one.url = {.host = "127.0.0.1", .port = 1, .prefix = "", .authority = std::string("127.0.0.1:") + name};
      pool.replicas.push_back(one);
    }
    config::Settings all;
    all.pools = {pool};
    return all;
  }
  ApiAnswer drain(const std::string& name, const std::string& body = "") {
    return drain_answer(fleet, name, true, body, now);
  }
  ApiAnswer undrain(const std::string& name) { return drain_answer(fleet, name, false, "", now); }

  const metrics::Moment now = std::chrono::steady_clock::now();
  metrics::series::Exposition exposition{1, {"test", "test"}};
  fleet::Fleet fleet{settings(), exposition, 1};
};

TEST_F(Api, DrainsAndUndrains) {
  EXPECT_EQ(drain("a").body, "{\"changed\":true,\"name\":\"a\",\"draining\":true}\n");
  EXPECT_EQ(drain("a", "{}").body, "{\"changed\":false,\"name\":\"a\",\"draining\":true}\n");
  const auto& pool = *fleet.snapshot()->pools[0];
  const auto health = pool.balancer->health().of(pool.replicas[0]->key, now);
  EXPECT_EQ(health.state, metrics::ReplicaState::draining);
  EXPECT_EQ(health.reason, "it was told to drain");
  EXPECT_EQ(undrain("a").body, R"({"changed":true,"name":"a","draining":false,"pardoned":false,"state":"starting",)"
                               R"("reason":"it drains no more"})"
                               "\n");
}

TEST_F(Api, UndrainTakesAnEjectedReplicaBackOnProbation) {
  const auto snapshot = fleet.snapshot();
  const auto& pool = *snapshot->pools[0];
  for (const bool drained : {false, true}) {
    for (int i = 0; i < 10; ++i) pool.balancer->health().report(pool.replicas[0]->key, balancer::Sign::failed, now);
    ASSERT_EQ(pool.balancer->health().of(pool.replicas[0]->key, now).state, metrics::ReplicaState::ejected);
    if (drained) drain("a");
    const auto told = boost::json::parse(undrain("a").body);
    EXPECT_EQ(told.at("pardoned").as_bool(), true);
    EXPECT_EQ(told.at("state").as_string(), "starting");
    EXPECT_EQ(pool.balancer->health().of(pool.replicas[0]->key, now).state, metrics::ReplicaState::starting);
  }
}

TEST_F(Api, UndrainSaysThatAReplicaIsDown) {
  const auto snapshot = fleet.snapshot();
  const auto& pool = *snapshot->pools[0];
  pool.balancer->health().report(pool.replicas[0]->key, balancer::Sign::probe_refused, now);
  const auto told = boost::json::parse(undrain("a").body);
  EXPECT_EQ(told.at("pardoned").as_bool(), false);
  EXPECT_EQ(told.at("state").as_string(), "down");
  EXPECT_EQ(told.at("reason").as_string(), "it refuses connections");
}

TEST_F(Api, TheLastReplicaDrainsOnlyWithForce) {
  drain("a");
  for (const auto* body : {"", "{}", R"({"force":false})"}) {
    const auto refused = drain("b", body);
    EXPECT_EQ(refused.status, 409u);
    EXPECT_THAT(commands::error_message({refused.status, refused.body}),
                HasSubstr("'b' is the last replica of its pool"));
  }
  EXPECT_EQ(drain("b", R"({"force":true})").status, 200u);
}

TEST_F(Api, RefusesOtherNamesAndBodies) {
  for (const auto* name : {"c", "", "a/b", "a%00"}) EXPECT_EQ(drain(name).status, 404u) << name;
  for (const auto* body : {"[]", "1", "{", "{\"force\":1}", "{\"farce\":true}", "{\"force\":true} x", "force=true"})
    EXPECT_EQ(drain("a", body).status, 400u) << body;
  EXPECT_THAT(undrain("a").body, HasSubstr("{\"changed\":false,\"name\":\"a\",\"draining\":false,"));
}

TEST_F(Api, SettingsComeBackAsTheyWentButForSecrets) {
  auto given = settings();
  given.overridden = {"admin.listen"};
  const auto answer = settings_answer(given);
  EXPECT_THAT(answer.body, Not(HasSubstr("planted-secret")));
  auto expected = config::listing_of(settings());
  for (auto& listed : expected)
    for (auto& key : listed.keys) key.secret.reset();
  EXPECT_EQ(commands::listed_from(answer.body).listing, expected);
  EXPECT_EQ(commands::listed_from(answer.body).overridden, given.overridden);
  for (const auto* text : {"", "{}", "[]", R"({"settings":[{}]})"})
    EXPECT_ANY_THROW(commands::listed_from(text)) << text;
}

TEST(ReloadAnswer, SaysHowItEnded) {
  using Kind = Reload::Result::Kind;
  EXPECT_EQ(reload_answer({Kind::done, {"a", "b"}, {}}).body, "{\"changes\":[\"a\",\"b\"]}\n");
  const auto failed = reload_answer({Kind::failed, {}, {"f:1:1: x"}}),
             refused = reload_answer({Kind::refused, {}, {"not now"}}),
             busy = reload_answer({Kind::busy, {}, {"later"}});
  EXPECT_EQ(busy.status, 409u);
  EXPECT_EQ(boost::json::parse(busy.body).at("error").at("code").as_string(), "reload_under_way");
  EXPECT_EQ(failed.status, 400u);
  EXPECT_EQ(boost::json::parse(failed.body).at("errors").at(0).as_string(), "f:1:1: x");
  EXPECT_EQ(boost::json::parse(failed.body).at("error").at("code").as_string(), "bad_settings");
  EXPECT_EQ(refused.status, 409u);
  EXPECT_EQ(commands::error_message({409, refused.body}), "not now");
}

TEST(AdminAddress, IsReadAsPeopleWriteIt) {
  const config::ListenAddress address{"127.0.0.1", 9091};
  for (const auto* text : {"127.0.0.1:9091", "localhost:9091", "http://127.0.0.1:9091", "http://127.0.0.1:9091/"})
    EXPECT_EQ(commands::admin_at({text}).address, address) << text;
  EXPECT_EQ(commands::admin_at({"unix:/run/weir.sock"}).address, (config::ListenAddress{"", 0, "/run/weir.sock"}));
  EXPECT_THROW(commands::admin_at({"weir"}), std::runtime_error);
}

TEST(BypassApi, SwitchesItAndSaysItOnceLoudly) {
  Said said;
  std::atomic<bool> bypass{false};
  EXPECT_EQ(bypass_answer(bypass, true).body, "{\"bypass\":true,\"changed\":true}\n");
  EXPECT_TRUE(bypass);
  EXPECT_THAT(said.take(), testing::AllOf(testing::HasSubstr("warning"), testing::HasSubstr("BYPASS is on")));
  EXPECT_EQ(bypass_answer(bypass, true).body, "{\"bypass\":true,\"changed\":false}\n");
  EXPECT_EQ(said.take(), "");
  EXPECT_EQ(bypass_answer(bypass, false).body, "{\"bypass\":false,\"changed\":true}\n");
  EXPECT_FALSE(bypass);
  EXPECT_THAT(said.take(), testing::HasSubstr("bypass is off"));
}

TEST(AcceptsGzip, ByNameOrByStarUnlessItsWeightIsZero) {
  const struct {
    const char* field;
    bool accepted;
  } cases[]{
      {"", false},
      {"gzip", true},
      {"GZip", true},
      {"x-gzip", true},
      {"deflate, gzip;q=1.0, *;q=0.5", true},
      {"gzip;q=0", false},
      {"gzip; q=0.000", false},
      {"gzip ;\tQ=0.0", false},
      {"gzip;q=0.001", true},
      {"gzip;level=9;q=0", false},
      {"*", true},
      {"*;q=0", false},
      {"*;q=0, gzip", true},
      {"gzip;q=0, *", false},
      {"identity", false},
      {"br, zstd", false},
      {"gzipped", false},
      {", ,gzip", true},
      {";q=0", false},
      {"gzip;q", true},
  };
  for (const auto& [field, accepted] : cases) EXPECT_EQ(accepts_gzip(field), accepted) << field;
}

std::string unzipped(const std::string& packed) {
  z_stream stream{};
  EXPECT_EQ(::inflateInit2(&stream, 15 + 16), Z_OK) << "gzip alone, no raw deflate";
  std::string out(2'000'000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0U) << "nothing behind the end";
  out.resize(stream.total_out);
  ::inflateEnd(&stream);
  return out;
}

TEST(Gzip, IsReadBackAsItWas) {
  std::mt19937 random(7);
  std::string noise(300'000, '\0');
  for (auto& byte : noise) byte = static_cast<char>(random());
  const std::string repeated(1'000'000, 'a');
  for (const std::string& text : {std::string(), std::string("a"), noise, repeated})
    EXPECT_EQ(unzipped(gzip(text)), text);
  EXPECT_LT(gzip(repeated).size(), 10'000U);
}

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
