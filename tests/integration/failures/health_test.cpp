// A replica that is not fit gets no requests, and gets them again when it is; one that stands still loses what it has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <set>
#include <string>
#include <thread>

#include "tests/integration/peers/simulated_replica.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using std::chrono_literals::operator""s;

WeirSettings probed_often(WeirSettings settings) {
  settings.health.insert({"interval", "\"100ms\""});
  settings.pools[0].more.insert({"policy", "\"round_robin\""});
  return settings;
}

const StreamScript script = vllm_chat(3);

TEST(Health, AReplicaThatListensLaterIsFoundAndWeirIsReadyAllTheWhile) {
  const auto port = free_port();
  WeirUnderTest weir(probed_often(pool_at(url_of(port))));
  weir.wait_until_said("replica 'r0' is down, it was up: it refuses connections");
  EXPECT_EQ(fetch(weir.metrics_port(), get("/-/ready"), "GET").status, 200u);
  ScriptedReplica late(plays(script), ScriptedReplica::ModelsQuestion::answered_unseen, port);
  weir.metrics_when("r0 to be found",
                    [](const auto& page) { return page.state_of("r0") == "starting" || page.state_of("r0") == "up"; });
  EXPECT_EQ(who_answers(weir), "r0");
}

TEST(Health, ASocketThatIsMissingIsARefusedConnection) {
  const TemporaryDirectory directory;
  WeirUnderTest weir(probed_often(pool_at("unix:" + (directory.path() / "replica.sock").string())));
  weir.wait_until_said("replica 'r0' is down, it was up: it refuses connections");
}

TEST(Health, AReplicaWhoseProbesFailGetsNothingUntilOnePasses) {
  std::atomic<bool> ill{true};
  ScriptedReplica good(plays(script));
  ScriptedReplica other([&](Exchange& exchange) {
    if (exchange.request().target != "/livez") return play(exchange, script);
    exchange.send(answer(ill ? "500 Internal Server Error" : "200 OK", ""));
  });
  auto settings = probed_often(pool_of({&good, &other}));
  settings.pools[0].more.insert({"health", "{ path = \"/livez\" }"});
  WeirUnderTest weir(settings);
  weir.metrics_when("r1 to be down", [](const auto& page) { return page.state_of("r1") == "down"; });
  weir.wait_until_said("replica 'r1' is down, it was up: its health path answers 500");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(who_answers(weir), "r0");
  ill = false;
  weir.metrics_when("r1 to be back", [](const auto& page) { return page.state_of("r1") != "down"; });
  weir.wait_until_said("replica 'r1' is starting, it was down: its probes pass");
  std::set<std::string> seen;
  for (int i = 0; i < 6; ++i) seen.insert(who_answers(weir));
  EXPECT_EQ(seen.size(), 2u);
}

TEST(Health, TokensThatFlowAreLifeThoughProbesGetNoAnswer) {
  Progress probes;
  std::atomic<bool> last{false}, late{false};
  ScriptedReplica replica([&](Exchange& exchange) {
    if (exchange.request().target == "/livez") {
      if (!late) exchange.send(answer("200 OK", ""));
      return probes.add(1);
    }
    exchange.send(sse_head());
    late = true;
    while (!last) {
      exchange.send(chunk(script.events[1]));
      probes.wait_for(probes.value() + 1, "a probe behind each token");
    }
    exchange.send(last_chunk);
  });
  auto settings = probed_often(pool_of({&replica}));
  settings.health.insert({{"path", "\"/livez\""}, {"timeout", "\"200ms\""}});
  WeirUnderTest weir(settings);
  HttpClient client(weir.port());
  client.send(post(chat, chat_body()));
  weir.metrics_when("tokens", [](const auto& page) { return page.sum("weir_output_tokens_total") > 0; });
  probes.wait_for(probes.value() + 10, "ten probes");
  EXPECT_EQ(weir.metrics().state_of("r0"), "up");
  last = true;
  static_cast<void>(client.response());
  weir.metrics_when("r0 to be down", [](const auto& page) { return page.state_of("r0") == "down"; });
}

TEST(Health, AReplicaWhoseHealthPathAnswersErrorsKeepsWhatItHasAndGetsNothingNew) {
  Progress probes;
  std::atomic<bool> last{false}, ill{false};
  const ScriptedReplica other(plays(script));
  ScriptedReplica replica([&](Exchange& exchange) {
    if (exchange.request().target == "/livez") {
      exchange.send(answer(ill ? "503 Service Unavailable" : "200 OK", ""));
      return probes.add(1);
    }
    exchange.send(sse_head());
    ill = true;
    while (!last) {
      exchange.send(chunk(script.events[1]));
      probes.wait_for(probes.value() + 1, "a probe behind each token");
    }
    exchange.send(chunk(script.events.back()));
    exchange.send(last_chunk);
  });
  auto settings = probed_often(pool_of({&replica, &other}));
  settings.health.insert({"path", "\"/livez\""});
  WeirUnderTest weir(settings);
  HttpClient client(weir.port());
  client.send(post(chat, chat_body()));
  auto got = client.response_head();
  ASSERT_EQ(got.head.field("x-weir-replica"), "r0");
  weir.wait_until_said("replica 'r0' is down, it was up: its health path answers 503");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(who_answers(weir), "r1");
  EXPECT_EQ(weir.metrics().state_of("r0"), "down") << "its tokens do not bring it back";
  last = true;
  client.rest(got);
  EXPECT_THAT(got.body, testing::EndsWith(script.events.back()));
}

TEST(Health, AReplicaWithoutAHealthPathIsAliveAndThatIsSaidOnce) {
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
  EXPECT_EQ(weir.metrics().state_of("r0"), "up");
}

// The replica's process is stopped: its connections stay open, the kernel takes new ones, and nothing comes.
// The probe only connects, so it passes all the while; with a path, the model's step stop-process looks at it.
TEST(HungProcess, LosesWhatItHasShownNothingOfAndStaysOutUntilItLives) {
  SimulatedReplica stopped({"--model", "m"}), good({"--model", "m"});
  auto settings = pool_at(stopped.url());
  settings.pools[0].replicas.push_back({.name = "r1", .url = good.url()});
  settings.pools[0].more = {{"policy", "\"round_robin\""}};
  settings.health = {{"path", "\"/none\""}, {"interval", "\"1s\""}, {"timeout", "\"2s\""}};
  WeirUnderTest weir(settings);
  weir.wait_until_said("replica 'r0' answers 404 to GET /none: from now on its probe only connects");
  // Tokens come between the last probe that passes and the first that does not.
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  stopped.process().send(SIGSTOP);
  const auto begun = Clock::now();
  std::vector<std::thread> clients;
  for (const auto& body : {whole_chat_body(), chat_body(), whole_chat_body(), chat_body(), whole_chat_body()})
    clients.emplace_back([&weir, body] { EXPECT_EQ(fetch(weir.port(), post(chat, body)).status, 200u); });
  for (auto& client : clients) client.join();
  EXPECT_GE(Clock::now() - begun, 5s) << "silence has to last";
  weir.wait_until_said("replica 'r0' is ejected, it was up: it gave no sign of life for ");
  // Probes pass their interval, and the ejection its time, within these seconds.
  for (const auto end = Clock::now() + 12s; Clock::now() < end;) {
    ASSERT_THAT(weir.metrics().state_of("r0"), testing::AnyOf("ejected", "down")) << weir.output();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  stopped.process().send(SIGCONT);
}

// The replica's door answers once more after it has left the settings, and never again.
TEST(Hung, AReplicaThatLeavesIsAskedAgain) {
  std::atomic<bool> left = false;
  std::atomic<int> asked = 0;
  ScriptedReplica leaves([&](Exchange& exchange) {
    if (exchange.request().target != "/livez" || (left && ++asked > 1)) return void(exchange.wait_for_close());
    exchange.send(answer("200 OK", ""));
  });
  ScriptedReplica good([&](Exchange& exchange) {
    if (exchange.request().target == "/livez") return exchange.send(answer("200 OK", ""));
    play(exchange, script);
  });
  auto settings = pool_of({&leaves});
  settings.health = {{"interval", "\"1s\""}, {"timeout", "\"1s\""}, {"path", "\"/livez\""}};
  settings.engine = {{"metrics_path", "\"\""}};
  settings.limits["drain"] = "\"60s\"";
  WeirUnderTest weir(settings);
  HttpClient client(weir.port());
  client.send(post(chat, chat_body()));
  leaves.wait_for_requests(1);
  settings.pools = pool_of({&good}).pools;
  settings.pools[0].replicas[0].name = "r1";
  left = true;
  const auto begun = Clock::now();
  weir.reload(settings);
  EXPECT_EQ(client.response().status, 200u);
  EXPECT_LT(Clock::now() - begun, 30s) << "limits.drain is 60 s";
}

}  // namespace
}  // namespace weir::integration
