// A session knows who asks: through proxies, and from pages of browsers. In an emergency it measures nobody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include "config/address.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Limit;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

net::PeerAddress ipv4(unsigned char last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}; }

/// The replica's part of a conversation: what it got, the requests after each other.
std::string got(ScriptedProxy& proxy, std::size_t connection = 0) { return proxy.connections[0].at(connection)->got; }

TEST(TrustedProxies, TheReplicaIsToldTheWayAsFarAsItIsBelieved) {
  for (const bool trusted : {false, true}) {
    ScriptedProxy proxy({says(whole_answer("200 OK", completion))}, [&](config::Settings& settings) {
      if (trusted) settings.server.trusted_proxies = {std::get<config::Network>(config::parse_network("10.0.0.0/8"))};
    });
    proxy.address = ipv4(9);
    proxy.asks(post(chat(false), "X-Forwarded-For: 6.6.6.6\r\n"));
    EXPECT_THAT(got(proxy), HasSubstr(trusted ? "X-Forwarded-For: 6.6.6.6, 10.0.0.9\r\n" : "For: 10.0.0.9\r\n"));
    EXPECT_EQ(got(proxy).find("6.6.6.6") != std::string::npos, trusted);
  }
}

TEST(TrustedProxies, AnAddressHasSoManyRequestsUnderWayThroughThem) {
  ScriptedProxy proxy(1, [](config::Settings& settings) {
    settings.server.trusted_proxies = {std::get<config::Network>(config::parse_network("10.0.0.0/8"))};
    settings.limits.connections_per_address = 1;
  });
  proxy.address = ipv4(9);
  proxy.plan[0] = {[](net::Peer&) {}};  // It does not answer.
  const auto one = proxy.asks(post(chat(true), "X-Forwarded-For: 6.6.6.6\r\n"));
  const auto second = proxy.client(post(chat(true), "X-Forwarded-For: 6.6.6.6\r\n"));
  const auto other = proxy.client(post(chat(true), "X-Forwarded-For: 7.7.7.7\r\n"));
  const auto proxies_own = proxy.asks(post(chat(true)));
  const auto refused = read_answer(second->got);
  EXPECT_EQ(refused.status, 503u);
  EXPECT_THAT(refused.head, HasSubstr("Connection: close"));
  EXPECT_THAT(refused.head, HasSubstr("Retry-After: 5"));
  EXPECT_THAT(refused.body, HasSubstr("limits.connections_per_address"));
  EXPECT_EQ(proxy.limit_hits(Limit::connections_per_address), 1u);
  EXPECT_THAT(proxy.log_lines(), testing::ElementsAre(HasSubstr(R"("api":"openai.chat")")));
  EXPECT_EQ(proxy.connections[0].size(), 3u) << "another address has its own, and the proxy itself is not limited";
  EXPECT_EQ(other->got + proxies_own->got, "");
  proxy.ends(*one);
  const auto again = proxy.asks(post(chat(true), "X-Forwarded-For: 6.6.6.6\r\n"));
  EXPECT_EQ(again->got, "") << "the first one has ended";
  EXPECT_EQ(proxy.shared.addresses.connections.size(), 2u);
}

class CorsSetting : public testing::Test {
 protected:
  static ScriptedProxy::Change allowing(const std::string& origin) {
    return [origin](config::Settings& settings) { settings.server.cors_origins = {origin}; };
  }
  static constexpr auto page = "Origin: https://app.example\r\n";
  static constexpr auto allowed = "Access-Control-Allow-Origin: https://app.example\r\n";
};

TEST_F(CorsSetting, APreflightIsAnsweredWithoutAReplica) {
  ScriptedProxy proxy(1, allowing("https://app.example"));
  const auto client = proxy.asks(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: w\r\nOrigin: https://app.example\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n\r\n" +
      health());
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 204 "));
  EXPECT_THAT(client->got, HasSubstr(allowed));
  EXPECT_THAT(client->got, HasSubstr("Access-Control-Allow-Headers: authorization\r\n"));
  EXPECT_THAT(client->got, HasSubstr("{\"status\":\"ok\"}")) << "the connection goes on";
  EXPECT_TRUE(proxy.connections[0].empty());
  EXPECT_THAT(proxy.log_lines().at(0), HasSubstr(R"("outcome":"ok")"));
}

TEST_F(CorsSetting, AnotherPagesPreflightIsRefused) {
  ScriptedProxy proxy(1, allowing("https://app.example"));
  const auto client = proxy.asks(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: w\r\nOrigin: https://evil.example\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(read_answer(client->got).status, 403u);
  EXPECT_THAT(client->got, Not(HasSubstr("Access-Control-Allow")));
  EXPECT_THAT(proxy.log_lines().at(0), HasSubstr(R"("outcome":"bad_request")"));
}

TEST_F(CorsSetting, StandsOnEveryAnswerInPlaceOfTheReplicas) {
  ScriptedProxy proxy(1, allowing("https://app.example"));
  const std::string of_replica = "Access-Control-Allow-Origin: https://replica.example\r\n";
  proxy.plan[0] = {says(streamed_answer()), says(whole_answer("200 OK", completion, of_replica)),
                   says(whole_answer("404 Not Found", "{}", of_replica))};
  const auto client = proxy.asks(post(chat(true), page));
  for (int i = 0; i < 2; ++i) {
    proxy.hears(*client, post(chat(false), page));
  }
  proxy.hears(*client, post("{}", page, "1.1", "/nowhere"));
  auto rest = client->got;
  for (const unsigned status : {200u, 200u, 404u, 404u}) {
    const auto answer = read_answer(rest);
    EXPECT_EQ(answer.status, status);
    EXPECT_THAT(answer.head, HasSubstr(allowed));
    EXPECT_THAT(answer.head, HasSubstr("Vary: Origin\r\n"));
    EXPECT_THAT(answer.head, Not(HasSubstr("replica.example")));
    rest = answer.rest;
  }
}

TEST_F(CorsSetting, AbsentLeavesItToTheReplicas) {
  ScriptedProxy proxy({says("HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: *\r\n\r\n")});
  const auto client = proxy.asks(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: w\r\nOrigin: https://app.example\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(proxy.connections[0].size(), 1u);
  EXPECT_THAT(client->got, HasSubstr("Access-Control-Allow-Origin: *\r\n"));
}

TEST(Bypass, RelaysBytesAndReadsNone) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{13}, net::Peer::any}) {
    SCOPED_TRACE(piece);
    ScriptedProxy proxy;
    proxy.shared.bypass = true;
    // A stream whose client asked for no usage: weir would ask for it, and take this event out.
    proxy.plan[0] = {says(streamed_answer(), piece)};
    const auto client = proxy.asks(post(chat(true), "Accept-Encoding: gzip\r\n"), piece);
    EXPECT_THAT(got(proxy), testing::EndsWith("\r\n\r\n" + chat(true))) << "the body as the client sent it";
    EXPECT_THAT(got(proxy), HasSubstr("Accept-Encoding: gzip\r\n"));
    const auto seen = read_answer(client->got);
    EXPECT_TRUE(seen.whole);
    EXPECT_EQ(seen.body, read_answer(streamed_answer()).body) << "every byte of the answer";
    const auto line = proxy.log_lines().at(0);
    EXPECT_THAT(line, HasSubstr(R"("outcome":"ok")"));
    EXPECT_THAT(line, HasSubstr(R"("api":"other")"));
    EXPECT_EQ(proxy.shard().output_tokens.value(), 0u);
    proxy.expect_at_rest();
  }
}

TEST(Bypass, CountsOutcomesAndShapesItsOwnErrorsAsBefore) {
  ScriptedProxy proxy;
  proxy.shared.bypass = true;
  proxy.plan[0] = {says(whole_answer("500 Internal Server Error", "{}")), [](net::Peer& peer) { peer.breaks(); }};
  const auto client = proxy.asks(post(chat(false)));
  EXPECT_EQ(read_answer(client->got).status, 500u);
  const auto claude = proxy.asks(post(chat(false), "", "1.1", "/v1/messages"));
  EXPECT_EQ(read_answer(claude->got).status, 502u);
  EXPECT_THAT(claude->got, HasSubstr(R"({"type":"error","error":{)")) << "Anthropic's shape";
  const auto lines = proxy.log_lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr(R"("outcome":"upstream_error")"));
  EXPECT_THAT(lines[1], HasSubstr(R"("outcome":"upstream_reset")"));
  proxy.expect_at_rest();
}

TEST(Paths, WithSpareSlashesAreSentOnWithoutThem) {
  const struct {
    std::string target, sent;
  } rows[]{{"/v1//chat/completions", "/v1/chat/completions"},
           {"//v1/chat///completions//?x=//y/", "/v1/chat/completions?x=//y/"},
           {"http://weir/v1/chat/completions/", "/v1/chat/completions"},
           {"/v1/audio/speech/", "/v1/audio/speech"}};
  for (const auto& [target, sent] : rows) {
    ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
    const auto client = proxy.asks(post(chat(false), "X-Kept: 1\r\n", "1.1", target));
    EXPECT_EQ(read_answer(client->got).status, 200u) << target;
    EXPECT_THAT(proxy.upstream().got, testing::StartsWith("POST " + sent + " HTTP/1.1\r\n"));
    EXPECT_THAT(proxy.upstream().got, AllOf(HasSubstr("X-Kept: 1\r\n"), testing::EndsWith(chat(false))));
  }
}

TEST(Bypass, TakesTheEndOfAConnectionForTheEndOfItsStream) {
  ScriptedProxy proxy;
  proxy.shared.bypass = true;
  proxy.plan[0] = {[](net::Peer& replica) {
    replica.says("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + token("a"));
    replica.ends();
  }};
  const auto client = proxy.asks(post(chat(true)));
  const auto seen = read_answer(client->got);
  EXPECT_TRUE(seen.whole);
  EXPECT_EQ(seen.body, token("a")) << "nobody reads whether an end marker was there, and nothing is added";
}

TEST(Bypass, TakesTheModelAloneWhereItDecides) {
  ScriptedProxy proxy(1, [](config::Settings& settings) { settings.pools.front().models = {"m"}; });
  proxy.shared.bypass = true;
  proxy.plan[0] = {says(whole_answer("200 OK", completion))};
  const auto known = proxy.client(post(chat(false)));
  auto of_other = chat(false);
  of_other.replace(of_other.find("\"m\""), 3, "\"x\"");
  const auto other = proxy.asks(post(of_other));
  EXPECT_EQ(read_answer(known->got).status, 200u);
  EXPECT_EQ(read_answer(other->got).status, 404u);
  EXPECT_THAT(other->got, HasSubstr("model_not_found"));
}

config::ClientKey key_of(const std::string& secret, const std::string& model) {
  config::ClientKey key;
  key.name = "page";
  key.models = {model};
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), key.sha256.data());
  return key;
}

TEST(Bypass, HoldsAKeyToItsModels) {
  for (const std::string model : {"m", "other"}) {
    ScriptedProxy proxy(1, [&](config::Settings& settings) { settings.server.keys = {key_of("k3y", model)}; });
    proxy.shared.bypass = true;
    proxy.plan[0] = {says(whole_answer("200 OK", completion))};
    const auto client = proxy.asks(post(chat(false), "Authorization: Bearer k3y\r\n"));
    EXPECT_EQ(read_answer(client->got).status, model == "m" ? 200u : 403u);
  }
}

TEST_F(CorsSetting, APreflightNeedsNoKey) {
  ScriptedProxy proxy(1, [](config::Settings& settings) {
    settings.server.cors_origins = {"https://app.example"};
    settings.server.keys = {key_of("k3y", "m")};
  });
  const auto client = proxy.client(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: w\r\nOrigin: https://app.example\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  const auto page_without_key = proxy.asks(post(chat(false), page));
  EXPECT_EQ(read_answer(client->got).status, 204u);
  EXPECT_EQ(read_answer(page_without_key->got).status, 401u);
  EXPECT_THAT(page_without_key->got, HasSubstr(allowed)) << "so that the page can read why";
}

TEST(Bypass, LeavesWhatIsUnderWayAsItBegan) {
  ScriptedProxy proxy({[](net::Peer& peer) { peer.says(sse_head() + chunk(token("a"))); }});
  const auto client = proxy.asks(post(chat(true)));
  EXPECT_THAT(got(proxy), HasSubstr("include_usage"));
  proxy.shared.bypass = true;
  proxy.hears(proxy.upstream(), stream_end);
  const auto seen = read_answer(client->got);
  EXPECT_TRUE(seen.whole);
  EXPECT_THAT(seen.body, Not(HasSubstr("completion_tokens"))) << "what weir had asked for is taken out";
  EXPECT_THAT(proxy.log_lines().at(0), HasSubstr(R"("api":"openai.chat")"));
}

}  // namespace
}  // namespace weir::proxy::serve
