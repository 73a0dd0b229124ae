// The real weir with TLS on either side, which a bridge speaks for client and replica. tests/scripts/tls has versions,
// names and certificates that are refused, as curl and openssl see them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/tls_bridge.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::HasSubstr;

using Kind = Bridge::Kind;

/// Makes one pool of a replica behind TLS.
WeirSettings pool_behind(const Bridge& bridge) {
  return pool_at(bridge.url(), {{"tls", "{ " + trusting_keys() + " }"}});
}

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
  WeirUnderTest weir(with_tls(pool_behind(before_replica)));
  Bridge to_weir(Kind::plain_to_tls, weir.port());
  HttpClient client(to_weir.port());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.exchange(post(chat, chat_body())).body, script.body(false));
  EXPECT_EQ(client.exchange(get("/v1/models"), "GET").status, 200u);
  EXPECT_EQ(to_weir.handshakes(), 1u);
  EXPECT_EQ(replica.connections(), 1u) << "the connection to the replica is kept";
  replica.wait_for_probes(1);
  EXPECT_GT(replica.asked_for("/metrics"), 0u) << "its pages are asked for through TLS, too";
  const auto page = weir.metrics_after(3);
  EXPECT_EQ(page.sum("weir_requests_total", {{"outcome", "ok"}}), 4);
  EXPECT_EQ(page.sum("weir_tls_handshakes_total", {{"side", "client"}, {"result", "full"}}), 1);
  EXPECT_EQ(page.sum("weir_tls_handshakes_total", {{"side", "replica"}, {"result", "failed"}}), 0);
  expect_idle(page);
}

TEST_F(TlsTest, AReloadChangesTheCertificateAndLosesNoStream) {
  Event go_on;
  ScriptedReplica slow([&](Exchange& exchange) { play_with_pause(exchange, script, 10, go_on); });
  auto settings = with_tls(pool_of({&slow}));
  WeirUnderTest weir(settings);
  Bridge old(Kind::plain_to_tls, weir.port());
  HttpClient client(old.port());
  client.send(post(chat, chat_body()));
  auto got = client.response_head();
  weir.reload(with_tls(settings, "renewed"), "reload (SIGHUP): server.tls ");
  Bridge renewed(Kind::plain_to_tls, weir.port());
  EXPECT_EQ(fetch(renewed.port(), get("/v1/models"), "GET").status, 200u);
  EXPECT_EQ(renewed.peer(), "weir test renewed");
  go_on.set();
  client.rest(got);
  EXPECT_EQ(got.body, script.body(false));
  EXPECT_EQ(old.peer(), "weir test local");

  settings.server["tls"] =
      "{ cert = " + quoted(tls_file("local.pem")) + ", key = " + quoted(tls_file("exact.key")) + " }";
  weir.reload(settings, "does not belong to the first certificate of cert");
  EXPECT_EQ(fetch(renewed.port(), get("/v1/models"), "GET").status, 200u);
  EXPECT_EQ(renewed.peer(), "weir test renewed") << "a wrong file changes nothing";
}

TEST_F(TlsTest, AReplicaMayBeASocketsPath) {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "replica.sock").string();
  Bridge before_replica(Kind::path_to_plain, replica.port(), {.path = path});
  WeirUnderTest weir(pool_at("unix:" + path));
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
                       replica_of("by_tls", by_tls.url()) + "tls = { " + trusting_keys() + " }\n" +
                       replica_of("stranger", stranger.url()) + "tls = { " + trusting_keys() + " }\n");
  const auto done = run_weir({"check", "--config", file, "--probe", "--timeout", "20"});
  EXPECT_THAT(done.output, HasSubstr("2 of 3 replicas could be measured"));
  EXPECT_THAT(done.output, HasSubstr("TLS: certificate verify failed: unable to get local issuer certificate"));
}

}  // namespace
}  // namespace weir::integration
