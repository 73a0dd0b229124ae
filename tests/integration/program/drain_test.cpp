// A replica is drained, restarted and taken back while weir serves; the commands that do it; and who may not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/integration/peers/load.hpp"
#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/operated_weir.hpp"

namespace weir::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Drain : public OperatedWeir {};

TEST_F(Drain, AReplicaFinishesWhatItHasAndGetsNothingNew) {
  ScriptedReplica a(waits()), b(plays());
  auto settings = with_admin(pool_of({&a}));
  WeirUnderTest weir(settings);
  HttpClient client(weir.port());
  auto got = begin_stream(client);
  settings = with_admin(pool_of({&a, &b}));
  weir.reload(settings, "replica r1 added");

  const auto drained = command({"drain", "r0"});
  EXPECT_EQ(drained.exit.code, 0);
  EXPECT_EQ(drained.output, "r0 drains: 1 requests are left on it\n");
  EXPECT_EQ(weir.metrics().state_of("r0"), "draining");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(who_answers(weir), "r1");
  settings.limits["first_token"] = "17";
  weir.reload(settings, "limits.first_token 5m -> 17s");
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

TEST_F(Drain, APageInABrowserChangesNothingAndReadsNothing) {
  ScriptedReplica a(plays()), b(plays());
  WeirUnderTest weir(with_admin(pool_of({&a, &b})));
  const auto own = "Host: " + at_loopback(admin) + "\r\n";
  const std::string json = "Content-Type: application/json\r\n", drain = "/api/replicas/r0/drain";
  const struct {
    std::string method, path, fields;
    unsigned status;
  } rows[]{
      {"POST", drain, own, 403},
      {"POST", drain, own + json + "Origin: http://evil.example\r\n", 403},
      {"POST", drain, "Host: evil.example\r\n" + json, 403},
      {"POST", "/-/reload", "Host: evil.example\r\n" + json, 403},
      {"OPTIONS", drain, own + "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n", 405},
      {"GET", drain, own, 405},
      {"GET", "/api/live", "Host: evil.example\r\n", 403},
      {"HEAD", "/api/settings", "", 403},
      {"GET", "/metrics", "Host: evil.example\r\n", 200},
  };
  for (const auto& [method, path, fields, status] : rows) {
    const auto got = fetch(
        admin, method + " " + path + " HTTP/1.1\r\n" + fields + "Connection: close\r\nContent-Length: 2\r\n\r\n{}",
        method);
    EXPECT_EQ(got.status, status) << method << ' ' << path << '\n' << fields;
    EXPECT_EQ(got.head.field("access-control-allow-origin"), std::nullopt);
  }
  EXPECT_EQ(post_admin(weir.metrics_port(), "/-/reload").status, 405u) << "the metrics listener changes nothing";
  EXPECT_THAT(replicas(), Not(HasSubstr("draining")));
  EXPECT_THAT(weir.output(), AllOf(Not(HasSubstr("reload (")), Not(HasSubstr("drains"))));
}

TEST_F(Drain, StatusShowsTheReplicas) {
  ScriptedReplica a(plays()), b(plays());
  auto settings = with_admin(pool_of({&a, &b}));
  settings.pools[0].more["policy"] = "\"round_robin\"";  // Both get some.
  WeirUnderTest weir(settings);
  for (int i = 0; i < 4; ++i) static_cast<void>(who_answers(weir));
  command({"drain", "r1"});
  EXPECT_EQ(live().at("replicas").at("r1").at("state").as_string(), "draining");
  // The control thread takes what has ended every tenth of a second.
  look_until("a median", [&] { return !live().at("replicas").at("r0").at("ttft_s").at("p50").is_null(); });
  Finished shown;
  // Figures are taken once a second.
  look_until("the drain in the figures", [&] {
    shown = command({"status"});
    return shown.output.find("r1      draining") != std::string::npos;
  });
  EXPECT_EQ(shown.exit.code, 0);
  EXPECT_THAT(shown.output, AllOf(HasSubstr("REPLICA STATE"), HasSubstr("r0      up"),
                                  HasSubstr("    it was told to drain\n"), Not(HasSubstr("\x1b"))));
  const auto told = boost::json::parse(command({"status", "--json"}).output);
  EXPECT_EQ(told.at("replicas").at("r1").at("state").as_string(), "draining");
  const auto nobody = run_weir({"status", "--admin", at_loopback(free_port())});
  EXPECT_EQ(nobody.exit.code, 1);
  EXPECT_THAT(nobody.output,
              AllOf(HasSubstr("weir status: no weir answers at 127.0.0.1:"), HasSubstr("--admin names")));
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

}  // namespace
}  // namespace weir::integration
