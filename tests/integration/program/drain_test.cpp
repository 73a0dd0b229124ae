// A replica is drained, restarted and taken back while weir serves; the commands that do it; and who may not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <thread>

#include "tests/integration/peers/load.hpp"
#include "tests/integration/peers/operated_weir.hpp"

namespace weir::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Drain : public OperatedWeir {
 protected:
  Drain() : OperatedWeir(vllm_chat(4)) {}

  /// Begins a stream, and goes on when the test says so.
  ScriptedReplica::Handler waits() {
    return [this](Exchange& exchange) {
      exchange.send(sse_head() + chunk(script.events[0]) + chunk(script.events[1]));
      go_on.wait("the test to go on");
      for (std::size_t i = 2; i < script.events.size(); ++i) exchange.send(chunk(script.events[i]));
      exchange.send(chunk(script.marker) + std::string(last_chunk));
    };
  }
  std::string replicas() const { return fetch(admin, get("/api/replicas"), "GET").body; }

  Event go_on;
};

TEST_F(Drain, AReplicaFinishesWhatItHasAndGetsNothingNew) {
  ScriptedReplica a(waits()), b(plays());
  auto settings = with_admin(pool_of({&a}));
  WeirUnderTest weir(settings);
  HttpClient client(weir.port());
  client.send(post(chat, chat_body()));
  auto got = client.response_head();
  client.read_until(got, script.events[1]);
  settings = with_admin(pool_of({&a, &b}));
  weir.rewrite(settings);
  weir.process().send(SIGHUP);
  weir.wait_until_said("replica r1 added");

  const auto drained = command({"drain", "r0"});
  EXPECT_EQ(drained.exit.code, 0);
  EXPECT_EQ(drained.output, "r0 drains: 1 requests are left on it\n");
  EXPECT_EQ(weir.metrics().sum("weir_replica_state", {{"replica", "r0"}, {"state", "draining"}}), 1);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(who_answers(weir), "r1");
  settings.limits["first_token"] = "17";
  weir.rewrite(settings);
  weir.process().send(SIGHUP);
  weir.wait_until_said("limits.first_token 300 s -> 17 s");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(who_answers(weir), "r1") << "a reload does not end it";

  Process waiting({weir_program(), "drain", "r0", "--wait", "--admin", at_loopback(admin)},
                  weir.settings_file().string() + ".wait");
  EXPECT_FALSE(waiting.wait(std::chrono::milliseconds(300)).has_value());
  go_on.set();
  client.rest(got);
  EXPECT_EQ(got.body, script.body(false));
  const auto ended = waiting.wait(patience);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->code, 0);
  EXPECT_EQ(read_file(weir.settings_file().string() + ".wait"), "r0 is drained: nothing is left on it\n");
  weir.wait_until_said("replica 'r0' is drained: nothing is left on it");

  EXPECT_EQ(command({"undrain", "r0"}).output, "r0 takes requests\n");
  EXPECT_EQ(command({"drain", "r1"}).exit.code, 0);
  EXPECT_EQ(who_answers(weir), "r0");
}

TEST_F(Drain, TheLastReplicaOnlyByForce) {
  ScriptedReplica a(plays());
  WeirUnderTest weir(with_admin(pool_of({&a})));
  const auto refused = command({"drain", "r0"});
  EXPECT_EQ(refused.exit.code, 1);
  EXPECT_THAT(refused.output, HasSubstr("weir drain: 'r0' is the last replica of its pool that is up"));
  EXPECT_EQ(who_answers(weir), "r0");
  EXPECT_EQ(command({"drain", "r0", "--force"}).exit.code, 0);
  EXPECT_EQ(fetch(weir.metrics_port(), get("/-/ready"), "GET").status, 200u) << "weir itself is";
  EXPECT_EQ(command({"undrain", "r0"}).exit.code, 0);
  EXPECT_EQ(who_answers(weir), "r0");
  const auto unknown = command({"drain", "r7"});
  EXPECT_EQ(unknown.exit.code, 1);
  EXPECT_THAT(unknown.output, HasSubstr("no replica is named 'r7'"));
}

TEST_F(Drain, WhatDoesNotFinishInTimeIsCut) {
  ScriptedReplica a(waits()), b(plays());
  auto settings = with_admin(pool_of({&a, &b}));
  settings.pools[0].more["policy"] = "\"round_robin\"";
  settings.limits["drain"] = "0.3";
  WeirUnderTest weir(settings);
  std::string who;
  HttpClient client(weir.port());
  Response got;
  while (who != "r0") {
    client.send(post(chat, chat_body()));
    got = client.response_head();
    who = got.head.field("x-weir-replica").value_or("");
    if (who != "r0") client.rest(got);
  }
  client.read_until(got, script.events[1]);
  const auto drained = command({"drain", "r0", "--wait"});
  EXPECT_EQ(drained.exit.code, 0) << drained.output;
  weir.wait_until_said("replica 'r0': limits.drain is over; 1 requests are cut");
  client.rest(got);
  EXPECT_NE(got.end, BodyEnd::whole);
  EXPECT_THAT(got.body, HasSubstr("limits.drain"));
  EXPECT_EQ(member(weir.log_lines(1).back(), "outcome"), "rejected");
  EXPECT_EQ(weir.metrics().sum("weir_requests_in_flight"), 0);
  go_on.set();
}

TEST_F(Drain, ARollingRestartOfEveryReplicaFailsNoRequest) {
  std::vector<std::unique_ptr<ScriptedReplica>> fleet;
  auto settings = with_admin(pool_of({}));
  for (int i = 0; i < 4; ++i) {
    fleet.push_back(std::make_unique<ScriptedReplica>(plays()));
    settings.pools[0].replicas.push_back({.name = "r" + std::to_string(i), .url = fleet.back()->url()});
  }
  settings.health["interval"] = "\"100ms\"";
  WeirUnderTest weir(settings);
  Load load(weir.port(), 6, post(chat, chat_body()), script.marker);
  load.wait_for_more(50);
  for (std::size_t i = 0; i < fleet.size(); ++i) {
    const auto name = "r" + std::to_string(i);
    const auto drained = command({"drain", name, "--wait"});
    ASSERT_EQ(drained.exit.code, 0) << drained.output;
    const auto port = fleet[i]->port();
    fleet[i].reset();
    load.wait_for_more(20);
    fleet[i] = std::make_unique<ScriptedReplica>(plays(), ScriptedReplica::ModelsQuestion::answered_unseen, port);
    fleet[i]->wait_for_probes(1);
    ASSERT_EQ(command({"undrain", name}).exit.code, 0);
    load.wait_for_more(50);
  }
  for (auto& replica : fleet) replica->wait_for_requests(1);
  load.stop();
  EXPECT_THAT(load.failures(), IsEmpty());
  EXPECT_EQ(weir.log_lines(load.answered()).size(), load.answered());
  expect_idle(weir.metrics());
}

TEST_F(Drain, APageInABrowserChangesNothing) {
  ScriptedReplica a(plays()), b(plays());
  WeirUnderTest weir(with_admin(pool_of({&a, &b})));
  const auto own = "Host: " + at_loopback(admin) + "\r\n";
  const std::string json = "Content-Type: application/json\r\n";
  const auto ask = [&](const std::string& method, const std::string& path, const std::string& fields,
                       const std::string& body = "{}") {
    return fetch(admin,
                 method + " " + path + " HTTP/1.1\r\n" + fields +
                     "Connection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body,
                 method);
  };
  for (const auto* path : {"/api/replicas/r0/drain", "/api/replicas/r0/undrain", "/-/reload"}) {
    const struct {
      std::string method, fields;
      unsigned status;
    } hostile[]{
        {"POST", own, 403},
        {"POST", own + "Content-Type: text/plain\r\n", 403},
        {"POST", own + "Content-Type: application/x-www-form-urlencoded\r\n", 403},
        {"POST", own + json + "Origin: http://evil.example\r\n", 403},
        {"POST", own + json + "Origin: null\r\n", 403},
        {"POST", "Host: evil.example\r\n" + json, 403},
        {"POST", "Host: localhost.evil.example\r\n" + json, 403},
        {"POST", "Host: evil.example\r\n" + json + "Origin: http://evil.example\r\n", 403},
        {"POST", own + "Host: evil.example\r\n" + json, 403},
        {"OPTIONS", own + "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n", 405},
        {"PUT", own + json, 405},
        {"GET", own, 405},
    };
    for (const auto& [method, fields, status] : hostile) {
      const auto got = ask(method, path, fields);
      EXPECT_EQ(got.status, status) << method << ' ' << path << '\n' << fields;
      EXPECT_EQ(got.head.field("access-control-allow-origin"), std::nullopt);
    }
  }
  // A page that DNS rebinding has brought reads nothing of weir's but what the metrics listener tells anybody.
  for (const auto* path : {"/api/replicas", "/api/replicas?x", "/api/settings", "/api/compare", "/api/nothing"}) {
    for (const auto* method : {"GET", "HEAD"}) {
      EXPECT_EQ(ask(method, path, "Host: evil.example\r\n", "").status, 403u) << method << ' ' << path;
      EXPECT_EQ(ask(method, path, "", "").status, 403u) << method << ' ' << path << " without a Host";
      EXPECT_NE(ask(method, path, own, "").status, 403u) << method << ' ' << path;
    }
  }
  for (const auto* path : {"/metrics", "/-/healthy", "/-/ready"})
    EXPECT_EQ(ask("GET", path, "Host: evil.example\r\n", "").status, 200u) << path;
  EXPECT_EQ(
      fetch(weir.metrics_port(), "POST /-/reload HTTP/1.1\r\nHost: localhost\r\n" + json + "Content-Length: 0\r\n\r\n")
          .status,
      405u)
      << "the metrics listener changes nothing";
  EXPECT_THAT(replicas(), Not(HasSubstr("draining")));
  EXPECT_THAT(weir.output(), AllOf(Not(HasSubstr("reload (")), Not(HasSubstr("drains"))));

  EXPECT_EQ(ask("POST", "/api/replicas/r0/drain", own + json + "Origin: http://" + at_loopback(admin) + "\r\n").status,
            200u);
  EXPECT_EQ(ask("POST", "/api/replicas/r0/undrain", "Host: localhost\r\n" + json).status, 200u);
}

TEST_F(Drain, StatusShowsTheReplicas) {
  ScriptedReplica a(plays()), b(plays());
  auto settings = with_admin(pool_of({&a, &b}));
  settings.pools[0].more["policy"] = "\"round_robin\"";  // Both get some.
  WeirUnderTest weir(settings);
  for (int i = 0; i < 4; ++i) who_answers(weir);
  command({"drain", "r1"});
  const auto status = [&] { return boost::json::parse(command({"status", "--json"}).output).as_object(); };
  auto json = status();
  EXPECT_EQ(json.at("replicas").at(1).at("state").as_string(), "draining");
  // The control thread takes what has ended every tenth of a second.
  const auto ttft = [&] { return json.at("replicas").at(0).at("ttft_p50_seconds"); };
  for (const auto deadline = Clock::now() + patience; ttft().is_null() && Clock::now() < deadline;) json = status();
  EXPECT_TRUE(ttft().is_double());
  const auto table = command({"status"});
  EXPECT_EQ(table.exit.code, 0);
  EXPECT_THAT(table.output, AllOf(HasSubstr("replica  pool  state"), HasSubstr("r0       chat  up"),
                                  HasSubstr("r1       chat  draining"), HasSubstr("    it was told to drain\n"),
                                  HasSubstr(" ms"), Not(HasSubstr("\x1b"))));
  const auto nobody = run({weir_program(), "status", "--admin", at_loopback(free_port())});
  EXPECT_EQ(nobody.exit.code, 1);
  EXPECT_THAT(nobody.output,
              AllOf(HasSubstr("weir status: no weir answers at 127.0.0.1:"), HasSubstr("--admin names")));
}

}  // namespace
}  // namespace weir::integration
