// A replica that is not fit gets no requests, and gets them again when it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/tls_bridge.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::HasSubstr;

WeirSettings probed_often(WeirSettings settings) {
  settings.health.insert({"interval", "\"100ms\""});
  settings.pools[0].more.insert({"policy", "\"round_robin\""});
  return settings;
}

bool is(const MetricsPage& page, std::string_view replica, std::string_view state) {
  return page.sum("weir_replica_state", {{"replica", replica}, {"state", state}}) == 1;
}

std::string who_answers(const WeirUnderTest& weir) {
  const auto got = fetch(weir.port(), post(chat, chat_body()));
  EXPECT_EQ(got.status, 200u);
  return got.head.field("x-weir-replica").value_or("");
}

class Health : public testing::Test {
 protected:
  const StreamScript script = vllm_chat(3);
  ScriptedReplica::Handler plays() {
    return [this](Exchange& exchange) { play(exchange, script); };
  }
};

TEST_F(Health, WeirIsReadyWhileNoReplicaIsAndServesWhatWaitedForOne) {
  const auto port = free_port();
  WeirSettings settings{
      .pools = {{.name = "chat", .replicas = {{.name = "r0", .url = "http://127.0.0.1:" + std::to_string(port)}}}}};
  settings.pools[0].more = {{"queue", "10"}};
  WeirUnderTest weir(probed_often(settings));
  weir.wait_until_said("replica 'r0' is down, it was up: it refuses connections");
  EXPECT_EQ(fetch(weir.metrics_port(), get("/-/ready"), "GET").status, 200u);
  HttpClient waits(weir.port());
  waits.send(post(chat, chat_body()));
  weir.metrics_when("the request to wait", [](const auto& page) { return page.sum("weir_requests_waiting") == 1; });
  EXPECT_EQ(fetch(weir.metrics_port(), get("/-/ready"), "GET").status, 200u);
  ScriptedReplica late(plays(), ScriptedReplica::ModelsQuestion::answered_unseen, port);
  EXPECT_EQ(waits.response().status, 200u);
}

TEST_F(Health, AReplicaThatListensLaterIsFoundAndWeirThatNeedsOneIsReadyThen) {
  const auto port = free_port();
  WeirSettings settings{
      .pools = {{.name = "chat", .replicas = {{.name = "r0", .url = "http://127.0.0.1:" + std::to_string(port)}}}}};
  settings.metrics = {{"ready_needs_replica", "true"}};
  WeirUnderTest weir(probed_often(settings));
  weir.wait_until_said("replica 'r0' is down, it was up: it refuses connections");
  const auto ready = fetch(weir.metrics_port(), get("/-/ready"), "GET");
  EXPECT_EQ(ready.status, 503u);
  EXPECT_EQ(ready.body, "not ready: no replica is up\n");
  ScriptedReplica late(plays(), ScriptedReplica::ModelsQuestion::answered_unseen, port);
  weir.metrics_when("r0 to be found",
                    [](const auto& page) { return is(page, "r0", "starting") || is(page, "r0", "up"); });
  EXPECT_EQ(fetch(weir.metrics_port(), get("/-/ready"), "GET").status, 200u);
  EXPECT_EQ(who_answers(weir), "r0");
}

TEST_F(Health, ASocketThatIsMissingOrGoneIsARefusedConnection) {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "replica.sock").string();
  ScriptedReplica behind_path(plays()), good(plays());
  for (const bool listens_at_first : {false, true}) {
    std::optional<Bridge> listens;
    if (listens_at_first)
      listens.emplace(Bridge::Kind::path_to_plain, behind_path.port(), Bridge::Options{.path = path});
    auto settings = probed_often(pool_of({&behind_path, &good}));
    settings.pools[0].replicas[0].url = "unix:" + path;
    settings.health["interval"] = "\"1h\"";  // One probe is all there is.
    settings.limits["retry_budget"] = "0";
    WeirUnderTest weir(settings);
    if (listens_at_first) {
      behind_path.wait_for_probes(1);
      EXPECT_TRUE(is(weir.metrics(), "r0", "up"));
      listens.reset();
      std::filesystem::remove(path);
    } else {
      weir.wait_until_said("replica 'r0' is down, it was up: it refuses connections");
    }
    for (int i = 0; i < 4; ++i) EXPECT_EQ(who_answers(weir), "r1");
    weir.wait_until_said("replica 'r0' is down, it was up: it refuses connections");
    EXPECT_TRUE(is(weir.metrics(), "r0", "down"));
  }
}

TEST_F(Health, AReplicaWhoseProbesFailGetsNothingUntilOnePasses) {
  std::atomic<bool> ill{true};
  ScriptedReplica good(plays());
  ScriptedReplica other([&](Exchange& exchange) {
    if (exchange.request().target != "/livez") return play(exchange, script);
    exchange.send(answer(ill ? "500 Internal Server Error" : "200 OK", ""));
  });
  auto settings = probed_often(pool_of({&good, &other}));
  settings.health.insert({"down_after", "2"});
  settings.pools[0].more.insert({"health", "{ path = \"/livez\" }"});
  WeirUnderTest weir(settings);
  weir.metrics_when("r1 to be down", [](const auto& page) { return is(page, "r1", "down"); });
  weir.wait_until_said("replica 'r1' is down, it was up: 2 probes in a row failed");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(who_answers(weir), "r0");
  ill = false;
  weir.metrics_when("r1 to be back", [](const auto& page) { return !is(page, "r1", "down"); });
  weir.wait_until_said("replica 'r1' is starting, it was down: its probes pass");
  std::set<std::string> seen;
  for (int i = 0; i < 6; ++i) seen.insert(who_answers(weir));
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(Health, TokensThatFlowAreLifeWhateverTheProbesSay) {
  Progress probes;
  std::atomic<bool> last{false};
  ScriptedReplica replica([&](Exchange& exchange) {
    if (exchange.request().target == "/livez") {
      exchange.send(answer("503 Service Unavailable", ""));
      return probes.add(1);
    }
    exchange.send(sse_head());
    while (!last) {
      exchange.send(chunk(script.events[1]));
      probes.wait_for(probes.value() + 1, "a probe behind each token");
    }
    exchange.send("0\r\n\r\n");
  });
  auto settings = probed_often(pool_of({&replica}));
  settings.health.insert({"path", "\"/livez\""});
  WeirUnderTest weir(settings);
  HttpClient client(weir.port());
  client.send(post(chat, chat_body()));
  replica.wait_for_requests(1);
  weir.metrics_when("tokens", [](const auto& page) { return page.sum("weir_output_tokens_total") > 0; });
  probes.wait_for(probes.value() + 10, "ten probes");
  EXPECT_TRUE(is(weir.metrics(), "r0", "up"));
  last = true;
  static_cast<void>(client.response());
  weir.metrics_when("r0 to be down", [](const auto& page) { return is(page, "r0", "down"); });
}

TEST_F(Health, AReplicaWithoutAHealthPathIsAliveAndThatIsSaidOnce) {
  ScriptedReplica replica([&](Exchange& exchange) {
    if (exchange.request().target != "/livez") return play(exchange, script);
    exchange.send(answer("404 Not Found", ""));
  });
  auto settings = probed_often(pool_of({&replica}));
  settings.health.insert({"path", "\"/livez\""});
  WeirUnderTest weir(settings);
  weir.wait_until_said("replica 'r0' answers 404 to GET /livez: from now on its probe only connects");
  EXPECT_EQ(who_answers(weir), "r0");
  EXPECT_EQ(replica.requests().front().target, "/livez");
  EXPECT_EQ(replica.requests().size(), 2u) << "one probe that asks, and the request";
  EXPECT_TRUE(is(weir.metrics(), "r0", "up"));
}

TEST_F(Health, FailuresInARowEjectAReplica) {
  ScriptedReplica good(plays());
  ScriptedReplica broken([](Exchange& exchange) { exchange.send(answer("500 Internal Server Error", "{}")); });
  WeirUnderTest weir(probed_often(pool_of({&good, &broken})));
  for (int i = 0; i < 12; ++i) EXPECT_EQ(who_answers(weir), "r0");
  ASSERT_EQ(broken.requests().size(), 5u) << weir.output();
  weir.wait_until_said("replica 'r1' is ejected, it was up: 5 requests in a row failed, so it is out for 10 s");
}

}  // namespace
}  // namespace weir::integration
