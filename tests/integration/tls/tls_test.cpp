// The real weir with TLS on either side. The bridge speaks TLS for the client and for the replica.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/tls_bridge.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Kind = Bridge::Kind;

std::string files_of(const std::string& name) {
  return "cert = " + quoted(tls_file(name + ".pem")) + ", key = " + quoted(tls_file(name + ".key"));
}

/// Lets weir speak TLS with its clients.
WeirSettings with_certificate(WeirSettings settings, const std::string& name, const std::string& more = "") {
  settings.server["tls"] = "{ " + files_of(name) + more + " }";
  return settings;
}

/// Makes one pool of a replica at `url`, whose TLS has these keys.
WeirSettings pool_at(const std::string& url, const std::string& tls) {
  WeirSettings settings;
  settings.pools = {{.name = "chat", .replicas = {{.name = "r0", .url = url}}}};
  if (!tls.empty()) settings.pools[0].replicas[0].more["tls"] = "{ " + tls + " }";
  return settings;
}

const std::string trusting = "ca = " + quoted(tls_file("ca.pem"));

class TlsTest : public testing::Test {
 protected:
  const StreamScript script = vllm_chat(20);
  ScriptedReplica replica{[this](Exchange& exchange) {
    if (exchange.request().body.find("\"stream\":true") != std::string::npos) return play(exchange, script);
    exchange.send(answer("200 OK", vllm_whole_chat(5)));
  }};
};

TEST_F(TlsTest, AStreamIsTheSameWithTlsOnBothSides) {
  Bridge before_replica(Kind::tls_to_plain, replica.port());
  WeirUnderTest weir(with_certificate(pool_at(before_replica.url(), trusting), "local"));
  Bridge to_weir(Kind::plain_to_tls, weir.port());
  HttpClient client(to_weir.port());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.exchange(post(chat, chat_body())).body, script.body(false));
  EXPECT_EQ(client.exchange(get("/v1/models"), "GET").status, 200u);
  EXPECT_EQ(to_weir.handshakes(), 1u);
  EXPECT_EQ(replica.connections(), 1u) << "the connection to the replica is kept";
  replica.wait_for_probes(1);
  EXPECT_EQ(replica.asked_for("/metrics") > 0, true) << "its pages are asked for through TLS, too";
  const auto page = weir.metrics_after(3);
  EXPECT_EQ(page.sum("weir_requests_total", {{"outcome", "ok"}}), 4);
  EXPECT_EQ(page.sum("weir_tls_handshakes_total", {{"side", "client"}, {"result", "full"}}), 1);
  EXPECT_EQ(page.sum("weir_tls_handshakes_total", {{"side", "replica"}, {"result", "failed"}}), 0);
  expect_idle(page);
}

TEST_F(TlsTest, SessionsAreResumedOnBothSidesAndOverAReload) {
  Bridge before_replica(Kind::tls_to_plain, replica.port());
  auto settings = with_certificate(pool_at(before_replica.url(), trusting), "local");
  settings.limits["idle_upstream_connections"] = "0";  // Each request needs a connection of its own.
  settings.server["threads"] = "1";
  WeirUnderTest weir(settings);
  Bridge to_weir(Kind::plain_to_tls, weir.port());
  EXPECT_EQ(fetch(to_weir.port(), post(chat, chat_body())).body, script.body(false));
  EXPECT_EQ(fetch(to_weir.port(), post(chat, chat_body())).body, script.body(false));
  EXPECT_EQ(to_weir.resumed(), 1u);
  settings.limits["first_token"] = "120";
  weir.rewrite(settings);
  weir.process().send(SIGHUP);
  weir.wait_until_said("reload (SIGHUP): limits.first_token");
  EXPECT_EQ(fetch(to_weir.port(), post(chat, chat_body())).body, script.body(false));
  EXPECT_EQ(to_weir.resumed(), 2u);
  const auto page = weir.metrics_after(3);
  EXPECT_EQ(page.sum("weir_tls_handshakes_total", {{"side", "client"}, {"result", "resumed"}}), 2);
  EXPECT_GE(page.sum("weir_tls_handshakes_total", {{"side", "replica"}, {"result", "resumed"}}), 2);
}

TEST_F(TlsTest, TheServerNameChoosesTheCertificate) {
  WeirUnderTest weir(with_certificate(pool_of({&replica}), "local", ", more = [{ " + files_of("example") + " }]"));
  for (const auto& [name, shown] :
       {std::pair{"localhost", "weir test local"}, {"a.example.test", "weir test example"}}) {
    Bridge to_weir(Kind::plain_to_tls, weir.port(), {.server_name = name});
    EXPECT_EQ(fetch(to_weir.port(), post(chat, chat_body())).status, 200u) << to_weir.error();
    EXPECT_EQ(to_weir.peer(), shown);
  }
}

TEST_F(TlsTest, OldVersionsAreRefused) {
  WeirUnderTest weir(with_certificate(pool_of({&replica}), "local"));
  const auto speaks = [](int least, int most) {
    return [=](SSL_CTX& context) {
      SSL_CTX_set_security_level(&context, 0);
      SSL_CTX_set_min_proto_version(&context, least);
      SSL_CTX_set_max_proto_version(&context, most);
    };
  };
  Bridge old(Kind::plain_to_tls, weir.port(), {.context = speaks(TLS1_VERSION, TLS1_1_VERSION)});
  EXPECT_THROW(fetch(old.port(), get("/v1/models"), "GET"), PeerGone);
  EXPECT_EQ(old.failed(), 1u);
  Bridge version_12(Kind::plain_to_tls, weir.port(), {.context = speaks(TLS1_2_VERSION, TLS1_2_VERSION)});
  EXPECT_EQ(fetch(version_12.port(), post(chat, chat_body())).body, script.body(false));
  EXPECT_EQ(weir.metrics().sum("weir_tls_handshakes_total", {{"side", "client"}, {"result", "failed"}}), 1);
}

TEST_F(TlsTest, PlainHttpIsToldThatThePortSpeaksTls) {
  WeirUnderTest weir(with_certificate(pool_of({&replica}), "local"));
  const auto told = fetch(weir.port(), get("/v1/models"), "GET");
  EXPECT_EQ(told.status, 400u);
  EXPECT_THAT(told.body, HasSubstr("https://"));
}

TEST_F(TlsTest, AReplicaWhoseCertificateFailsGetsNothingAndTheReasonIsSaid) {
  for (const auto& [certificate, tls, why] :
       {std::tuple{"expired", trusting, "certificate has expired"},
        {"stranger", trusting, "unable to get local issuer certificate"},
        {"local", trusting + ", server_name = \"other.test\"", "the certificate is for other names"}}) {
    const std::string name = certificate;
    Bridge before_replica(Kind::tls_to_plain, replica.port(),
                          {.context = [name](SSL_CTX& context) { show_certificate(context, name); }});
    WeirUnderTest weir(pool_at(before_replica.url(), tls));
    const auto refused = fetch(weir.port(), post(chat, chat_body()));
    EXPECT_TRUE(refused.status == 502 || refused.status == 503) << refused.status;
    weir.wait_until_said("cannot connect: TLS: certificate verify failed: " + std::string(why));
    EXPECT_EQ(before_replica.handshakes(), 0u);
  }
  EXPECT_EQ(replica.requests().size(), 0u);
  Bridge before_replica(Kind::tls_to_plain, replica.port(),
                        {.context = [](SSL_CTX& context) { show_certificate(context, "stranger"); }});
  WeirUnderTest weir(pool_at(before_replica.url(), "verify = false"));
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, script.body(false));
}

TEST_F(TlsTest, AReplicaThatDemandsACertificateGetsIt) {
  Bridge before_replica(Kind::tls_to_plain, replica.port(), {.context = [](SSL_CTX& context) {
                          SSL_CTX_load_verify_file(&context, tls_file("ca.pem").c_str());
                          SSL_CTX_set_verify(&context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
                        }});
  for (const auto& [more, why] :
       {std::pair<std::string, std::string>{"", "certificate required"}, {", " + files_of("stranger"), "unknown ca"}}) {
    // The probe is what says it first, or the request; another replica serves the client.
    auto settings = pool_at(before_replica.url(), trusting + more);
    settings.pools[0].replicas.push_back({.name = "r1", .url = replica.url()});
    settings.pools[0].more["policy"] = "\"round_robin\"";
    WeirUnderTest weir(settings);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, script.body(false));
    weir.wait_until_said("cannot connect: TLS: the replica refused weir's certificate: " + why);
    const auto page = weir.metrics_after(4);
    EXPECT_EQ(page.sum("weir_requests_total", {{"outcome", "ok"}, {"replica", "r1"}}), 4);
    expect_idle(weir.metrics_when("an empty ledger",
                                  [](const MetricsPage& now) { return now.sum("weir_queued_tokens") == 0; }));
  }
  EXPECT_EQ(replica.requests().size(), 8u) << "the bridge has passed none on";
  WeirUnderTest weir(pool_at(before_replica.url(), trusting + ", " + files_of("client")));
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, script.body(false));
  EXPECT_EQ(before_replica.peer(), "weir test client");
}

TEST_F(TlsTest, AnAnswerThatItsCloseEndsIsWholeOnlyWithACloseNotify) {
  ScriptedReplica closing([](Exchange& exchange) {
    exchange.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + vllm_whole_chat(5));
    exchange.close();
  });
  for (const bool cuts : {false, true}) {
    Bridge before_replica(Kind::tls_to_plain, closing.port(), {.cuts = cuts});
    WeirUnderTest weir(pool_at(before_replica.url(), trusting));
    const auto got = fetch(weir.port(), post(chat, whole_chat_body()));
    EXPECT_EQ(got.end == BodyEnd::whole, !cuts);
    const auto page = weir.metrics_after(1);
    EXPECT_EQ(page.sum("weir_requests_total", {{"outcome", "ok"}}), cuts ? 0 : 1);
    EXPECT_EQ(page.sum("weir_requests_total", {{"outcome", "upstream_reset"}}), cuts ? 1 : 0);
  }
}

TEST_F(TlsTest, AnOldClientReadsACloseNotifyBehindItsStream) {
  WeirUnderTest weir(with_certificate(pool_of({&replica}), "local"));
  Bridge to_weir(Kind::plain_to_tls, weir.port());
  auto request = post(chat, chat_body());
  request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
  const auto got = fetch(to_weir.port(), request);
  EXPECT_EQ(got.body, script.body(false));
  EXPECT_EQ(got.end, BodyEnd::close) << "without one the bridge would reset the connection";
}

TEST_F(TlsTest, AReloadChangesTheCertificateAndLosesNoStream) {
  Event half, go_on;
  ScriptedReplica slow([&](Exchange& exchange) {
    exchange.send(sse_head());
    for (std::size_t i = 0; i < script.events.size(); ++i) {
      if (i == script.events.size() / 2) {
        half.set();
        go_on.wait("the reload");
      }
      exchange.send(chunk(script.events[i]));
    }
    exchange.send(chunk(script.marker) + std::string(last_chunk));
  });
  auto settings = with_certificate(pool_of({&slow}), "local");
  WeirUnderTest weir(settings);
  Bridge old(Kind::plain_to_tls, weir.port());
  HttpClient client(old.port());
  client.send(post(chat, chat_body()));
  half.wait("half of the stream");
  weir.rewrite(with_certificate(settings, "renewed"));
  weir.process().send(SIGHUP);
  weir.wait_until_said("reload (SIGHUP): server.tls ");
  Bridge renewed(Kind::plain_to_tls, weir.port());
  EXPECT_EQ(fetch(renewed.port(), get("/v1/models"), "GET").status, 200u);
  EXPECT_EQ(renewed.peer(), "weir test renewed");
  go_on.set();
  EXPECT_EQ(client.response().body, script.body(false));
  EXPECT_EQ(old.peer(), "weir test local");

  settings.server["tls"] =
      "{ cert = " + quoted(tls_file("local.pem")) + ", key = " + quoted(tls_file("exact.key")) + " }";
  weir.rewrite(settings);
  weir.process().send(SIGHUP);
  weir.wait_until_said("does not belong to the first certificate of cert");
  EXPECT_EQ(fetch(renewed.port(), get("/v1/models"), "GET").status, 200u);
  EXPECT_EQ(renewed.peer(), "weir test renewed") << "a wrong file changes nothing";
}

TEST_F(TlsTest, AHandshakeThatStallsIsEndedAndCountedWhileOthersAreServed) {
  auto settings = with_certificate(pool_of({&replica}), "local");
  settings.limits["handshake_time"] = "\"500ms\"";
  settings.limits["handshakes"] = "3";
  settings.server["threads"] = "1";
  WeirUnderTest weir(settings);
  std::vector<Socket> stalled;
  for (int i = 0; i < 3; ++i) stalled.push_back(Socket::connect(weir.port()));
  // A fourth is closed at once, since three are under way.
  Socket::connect(weir.port()).wait_for_close();
  for (auto& one : stalled) one.wait_for_close();
  Bridge to_weir(Kind::plain_to_tls, weir.port());
  EXPECT_EQ(fetch(to_weir.port(), post(chat, chat_body())).body, script.body(false));
  const auto page = weir.metrics();
  EXPECT_EQ(page.sum("weir_limit_hits_total", {{"limit", "handshake_time"}}), 3);
  EXPECT_EQ(page.sum("weir_limit_hits_total", {{"limit", "handshakes"}}), 1);
}

TEST_F(TlsTest, AClientBeyondTheLimitOfConnectionsGetsAnAlertAndNoPlainText) {
  auto settings = with_certificate(pool_of({&replica}), "local");
  settings.limits["connections"] = "1";
  WeirUnderTest weir(settings);
  Bridge to_weir(Kind::plain_to_tls, weir.port());
  HttpClient first(to_weir.port());
  EXPECT_EQ(first.exchange(post(chat, chat_body())).body, script.body(false));
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    Bridge beyond(Kind::plain_to_tls, weir.port(),
                  {.context = [version](SSL_CTX& context) { SSL_CTX_set_max_proto_version(&context, version); }});
    EXPECT_THROW(fetch(beyond.port(), get("/v1/models"), "GET"), PeerGone);
    EXPECT_EQ(beyond.error(), "tlsv1 alert internal error");
  }
  weir.metrics_when("both to be counted", [](const auto& page) {
    return page.sum("weir_limit_hits_total", {{"limit", "connections"}}) == 2;
  });
  EXPECT_EQ(first.exchange(post(chat, chat_body())).body, script.body(false));
}

TEST_F(TlsTest, AReplicaMayBeASocketsPath) {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "replica.sock").string();
  Bridge before_replica(Kind::path_to_plain, replica.port(), {.path = path});
  WeirUnderTest weir(pool_at("unix:" + path, ""));
  HttpClient client(weir.port());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(client.exchange(post(chat, chat_body())).body, script.body(false));
  EXPECT_EQ(replica.connections(), 1u);
  EXPECT_EQ(replica.requests().front().head.field("host"), "localhost");
  replica.wait_for_probes(1);
  EXPECT_EQ(client.exchange(get("/v1/models"), "GET").status, 200u);
}

TEST_F(TlsTest, TheProbeSpeaksTlsAndToPaths) {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "replica.sock").string(), file = (directory.path() / "weir.toml").string();
  Bridge by_path(Kind::path_to_plain, replica.port(), {.path = path});
  Bridge by_tls(Kind::tls_to_plain, replica.port());
  Bridge stranger(Kind::tls_to_plain, replica.port(),
                  {.context = [](SSL_CTX& context) { show_certificate(context, "stranger"); }});
  const auto replica_of = [](const std::string& name, const std::string& url) {
    return "[[pool.replica]]\nname = " + quoted(name) + "\nurl = " + quoted(url) + "\n";
  };
  write_file(file, "[[pool]]\nname = \"chat\"\nmodels = [\"m\"]\n" + replica_of("by_path", "unix:" + path) +
                       replica_of("by_tls", by_tls.url()) + "tls = { " + trusting + " }\n" +
                       replica_of("stranger", stranger.url()) + "tls = { " + trusting + " }\n");
  const auto done = run({weir_program(), "check", "--config", file, "--probe", "--timeout", "20"});
  EXPECT_THAT(done.output, HasSubstr("2 of 3 replicas could be measured"));
  EXPECT_THAT(done.output, HasSubstr("TLS: certificate verify failed: unable to get local issuer certificate"));
}

}  // namespace
}  // namespace weir::integration
