// A replica that stands still loses its requests, and one that takes its time keeps them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

#include "tests/integration/peers/simulated_replica.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using std::chrono_literals::operator""s;

std::string state_of(const MetricsPage& page, std::string_view replica) {
  for (const std::string_view state : {"up", "starting", "draining", "ejected", "down"})
    if (page.sum("weir_replica_state", {{"replica", replica}, {"state", state}}) == 1) return std::string(state);
  return "";
}

// The replica's process is stopped: its connections stay open, and nothing comes.
TEST(Hung, AStoppedReplicaLosesWhatItHasShownNothingOfAndStaysOutUntilItLives) {
  SimulatedReplica stopped({"--model", "m"}), good({"--model", "m"});
  WeirSettings settings{
      .pools = {{.name = "chat",
                 .replicas = {{.name = "r0", .url = stopped.url()}, {.name = "r1", .url = good.url()}},
                 .more = {{"policy", "\"round_robin\""}}}}};
  settings.health = {{"interval", "\"4s\""}, {"timeout", "\"6s\""}};
  WeirUnderTest weir(settings);
  const auto ask = [&](const std::string& body) {
    return std::thread([&weir, body] { EXPECT_EQ(fetch(weir.port(), post(chat, body)).status, 200u); });
  };
  const auto whole = R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":5})";
  const auto stream = R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":5,"stream":true})";
  // Tokens come between the last probe that passes and the first that does not.
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, stream)).status, 200u);
  stopped.process().send(SIGSTOP);
  const auto begun = Clock::now();
  std::vector<std::thread> clients;
  for (const auto* body : {whole, stream, whole, stream, whole, stream}) clients.push_back(ask(body));
  for (auto& client : clients) client.join();
  EXPECT_GE(Clock::now() - begun, 5s) << "silence has to last";
  weir.wait_until_said("replica 'r0' is ejected, it was up: it gave no sign of life for ");
  std::this_thread::sleep_until(begun + 18s);
  const auto state = state_of(weir.metrics(), "r0");
  EXPECT_TRUE(state == "ejected" || state == "down") << state << "\n" << weir.output();
  stopped.process().send(SIGCONT);
}

// The kernel goes on taking its connections.
TEST(Hung, AStoppedReplicaWithoutAHealthPathStaysOutToo) {
  SimulatedReplica stopped({"--model", "m"}), good({"--model", "m"});
  WeirSettings settings{
      .pools = {{.name = "chat",
                 .replicas = {{.name = "r0", .url = stopped.url()}, {.name = "r1", .url = good.url()}},
                 .more = {{"policy", "\"round_robin\""}}}}};
  settings.health = {{"path", "\"/none\""}, {"interval", "\"1s\""}, {"timeout", "\"2s\""}};
  WeirUnderTest weir(settings);
  weir.wait_until_said("replica 'r0' answers 404 to GET /none: from now on its probe only connects");
  const auto stream = R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":5,"stream":true})";
  stopped.process().send(SIGSTOP);
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&] { EXPECT_EQ(fetch(weir.port(), post(chat, stream)).status, 200u); });
  for (auto& client : clients) client.join();
  weir.wait_until_said("replica 'r0' is ejected, it was up: it gave no sign of life for ");
  std::this_thread::sleep_for(12s);
  const auto state = state_of(weir.metrics(), "r0");
  EXPECT_TRUE(state == "ejected" || state == "down") << state << "\n" << weir.output();
  stopped.process().send(SIGCONT);
}

// Nothing tells such a replica from one that stands still, but for its door.
TEST(Hung, AReplicaThatTakesItsTimeForAFirstTokenKeepsItsRequest) {
  const auto script = vllm_chat(3);
  ScriptedReplica slow([&](Exchange& exchange) {
    std::this_thread::sleep_for(7s);
    exchange.send(sse_head() + chunk(script.body(true)) + std::string(last_chunk));
  });
  ScriptedReplica other([&](Exchange& exchange) {
    exchange.send(sse_head() + chunk(script.body(true)) + std::string(last_chunk));
  });
  auto settings = pool_of({&slow, &other});
  settings.pools[0].more = {{"policy", "\"round_robin\""}};
  settings.health = {{"interval", "\"1h\""}};
  WeirUnderTest weir(settings);
  std::string answered_by;
  for (int i = 0; i < 4 && slow.requests().empty(); ++i) {
    const auto got = fetch(weir.port(), post(chat, chat_body()));
    EXPECT_EQ(got.status, 200u);
    answered_by = got.head.field("x-weir-replica").value_or("");
  }
  EXPECT_EQ(answered_by, "r0");
  EXPECT_EQ(slow.requests().size(), 1u);
  EXPECT_EQ(state_of(weir.metrics(), "r0"), "up");
  EXPECT_THAT(weir.output(), Not(HasSubstr("is ejected")));
  EXPECT_GE(slow.probes(), 2u) << "one at the start, and one that the suspicion asked for";
}

// Its door answers once more after it has left the settings, and never again.
TEST(Hung, AReplicaThatLeavesIsAskedAgain) {
  const auto script = vllm_chat(3);
  std::atomic<bool> left = false;
  std::atomic<int> asked = 0;
  ScriptedReplica leaves([&](Exchange& exchange) {
    if (exchange.request().target != "/livez") return static_cast<void>(exchange.wait_for_close());
    if (left && ++asked > 1) return static_cast<void>(exchange.wait_for_close());
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
  weir.rewrite(settings);
  left = true;
  const auto begun = Clock::now();
  weir.process().send(SIGHUP);
  EXPECT_EQ(client.response().status, 200u);
  EXPECT_LT(Clock::now() - begun, 30s) << "limits.drain is 60 s";
}

// A replica that leaves shares its series with the next one of its name, and is not excused by that one's tokens.
TEST(Hung, AReplicaThatLeavesIsNotTakenForTheNextOneOfItsName) {
  SimulatedReplica stopped({"--model", "m"}), good({"--model", "m"}), third({"--model", "m"});
  WeirSettings settings{.pools = {{.name = "chat", .replicas = {{.name = "r0", .url = stopped.url()}}}}};
  settings.health = {{"interval", "\"4s\""}, {"timeout", "\"2s\""}};
  settings.limits["drain"] = "\"60s\"";
  WeirUnderTest weir(settings);
  const auto whole = R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":5})";
  const auto stream = R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":5,"stream":true})";
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, whole)).status, 200u);
  stopped.process().send(SIGSTOP);
  std::atomic<bool> over = false;
  std::thread client([&] {
    EXPECT_EQ(fetch(weir.port(), post(chat, whole)).status, 200u);
    over = true;
  });
  weir.metrics_when("the request is with the replica", [](const MetricsPage& page) {
    return page.sum("weir_requests_in_flight", {{"replica", "r0"}}) == 1;
  });
  settings.pools[0].replicas[0].url = good.url();
  settings.pools[0].replicas.push_back({.name = "r1", .url = third.url()});
  weir.rewrite(settings);
  weir.process().send(SIGHUP);
  weir.wait_until_said("reload (SIGHUP)");
  const auto until = Clock::now() + 20s;
  while (!over && Clock::now() < until) EXPECT_EQ(fetch(weir.port(), post(chat, stream)).status, 200u);
  EXPECT_TRUE(over) << weir.output();
  stopped.process().send(SIGCONT);
  client.join();
}

}  // namespace
}  // namespace weir::integration
