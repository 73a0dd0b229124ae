// Settings change while weir serves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <random>

#include "tests/integration/peers/load.hpp"
#include "tests/integration/peers/operated_weir.hpp"

namespace weir::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Reload : public OperatedWeir {
 protected:
  std::string settings_in_use() const { return get_admin(admin, "/api/settings").body; }
  Response reload() const { return post_admin(admin, "/-/reload"); }
};

TEST_F(Reload, HupTakesTheNewSettingsAndSaysWhatChanged) {
  ScriptedReplica a(plays()), b(plays());
  auto settings = pool_of({&a});
  WeirUnderTest weir(settings);
  settings = pool_of({&a, &b});
  settings.limits["first_token"] = "120";
  weir.reload(settings, "reload (SIGHUP): limits.first_token 5m -> 2m; pool chat: replica r1 added");
  weir.process().send(SIGHUP);
  weir.wait_until_said("reload (SIGHUP): nothing has changed");
  EXPECT_EQ(weir.metrics().sum("weir_config_last_reload_successful"), 1);
  b.wait_for_probes(1);
}

TEST_F(Reload, AWrongFileChangesNothingAndSaysAllThatIsWrong) {
  ScriptedReplica a(plays()), b(plays());
  auto settings = with_admin(pool_of({&a}));
  WeirUnderTest weir(settings);
  const auto before = weir.metrics().sum("weir_config_last_reload_success_timestamp_seconds");
  auto wrong = with_admin(pool_of({&b}));
  wrong.limits["first_tokn"] = "120";
  wrong.pools[0].more["polisy"] = "\"random\"";
  weir.rewrite(wrong);
  const auto refused = reload();
  EXPECT_EQ(refused.status, 400u);
  EXPECT_EQ(refused.head.field("content-type"), "application/json");
  EXPECT_THAT(refused.body, AllOf(HasSubstr("first_tokn"), HasSubstr("polisy"), HasSubstr("weir.toml:")));
  weir.wait_until_said("reload (POST /-/reload) failed, and weir goes on with the settings it has; errors: 2");
  EXPECT_THAT(weir.output(), AllOf(HasSubstr("first_tokn"), HasSubstr("polisy")));
  EXPECT_EQ(weir.metrics().sum("weir_config_last_reload_successful"), 0);
  EXPECT_EQ(weir.metrics().sum("weir_config_last_reload_success_timestamp_seconds"), before);
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);
  EXPECT_EQ(a.requests().size(), 1u);
  EXPECT_EQ(b.requests().size(), 0u);

  weir.rewrite(settings);
  EXPECT_EQ(reload().body, "{\"changes\":[]}\n");
  EXPECT_EQ(weir.metrics().sum("weir_config_last_reload_successful"), 1);
}

/// A replica hangs, and is replaced under its name: what it had goes to the other one.
TEST_F(Reload, WhatAReplacedReplicaHangsWithGoesToTheNewOne) {
  ScriptedReplica hangs([](Exchange&exchange) { exchange.wait_for_close(); }), works(plays());
  WeirUnderTest weir(pool_of({&hangs}));
  HttpClient client(weir.port());
  client.send(post(chat, chat_body()));
  hangs.wait_for_requests(1);
  weir.reload(pool_of({&works}));
  const auto got = client.response();
  EXPECT_EQ(got.status, 200u);
  EXPECT_EQ(got.body, script.body(false));
  EXPECT_EQ(weir.metrics_after(1).sum("weir_requests_total", {{"outcome", "ok"}}), 1);
}

TEST_F(Reload, AStreamOutlivesItsReplicasRemoval) {
  ScriptedReplica a(waits()), b(plays());
  auto settings = with_admin(pool_of({&a}));
  WeirUnderTest weir(settings);
  HttpClient client(weir.port());
  auto got = begin_stream(client);

  settings.pools[0].replicas = {{.name = "r1", .url = b.url()}};
  weir.rewrite(settings);
  EXPECT_EQ(reload().body, "{\"changes\":[\"pool chat: replica r1 added\",\"pool chat: replica r0 removed\"]}\n");
  EXPECT_EQ(who_answers(weir), "r1");
  EXPECT_THAT(replicas(), AllOf(HasSubstr("\"state\":\"draining\""), HasSubstr("it is no longer in the settings")));
  EXPECT_EQ(weir.metrics().state_of("r0"), "draining");

  go_on.set();
  client.rest(got);
  EXPECT_EQ(got.body, script.body(false));
  EXPECT_EQ(got.end, BodyEnd::whole);
  weir.wait_until_said("replica 'r0' at http://" + at_loopback(a.port()) + " is gone: its last request has ended");
  EXPECT_THAT(replicas(), Not(HasSubstr("\"r0\"")));
  EXPECT_EQ(weir.log_lines(2).size(), 2u);
  weir.stop();
  EXPECT_THAT(weir.output(), HasSubstr("2 requests, 2 of them answered well"));
}

TEST_F(Reload, PoolsModelsAndObjectivesFollow) {
  ScriptedReplica a(plays()), b(plays());
  auto settings = with_admin(pool_of({&a}));
  WeirUnderTest weir(settings);
  const auto other = post(chat, chat_body("Hi", "n"));
  HttpClient kept(weir.port());
  EXPECT_EQ(kept.exchange(other).status, 404u);
  settings.pools.push_back(
      {.name = "code", .replicas = {{.name = "c0", .url = b.url()}}, .more = {{"models", "[\"n\"]"}}});
  settings.slos = {{{"name", "\"fast\""}, {"pool", "\"code\""}, {"e2e", "17"}}};
  weir.rewrite(settings);
  EXPECT_EQ(reload().body, "{\"changes\":[\"pool code (replica c0) added\",\"slo fast added\"]}\n");
  EXPECT_EQ(kept.exchange(other).status, 200u) << "on a connection that was open before";
  weir.metrics_when("the objective to be counted", [](const MetricsPage& page) {
    return page.sum("weir_slo_requests_total", {{"slo", "fast"}, {"result", "good"}}) == 1 &&
           page.sum("weir_request_duration_seconds_bucket", {{"replica", "c0"}, {"le", "17"}}) == 1;
  });
  settings.pools.pop_back();
  settings.slos.clear();
  weir.rewrite(settings);
  EXPECT_EQ(reload().status, 200u);
  EXPECT_EQ(kept.exchange(other).status, 404u);
}

TEST_F(Reload, ListenersMoveAndOneThatCannotBeOpenedStopsTheReload) {
  ScriptedReplica a(plays());
  auto settings = with_admin(pool_of({&a}));
  WeirUnderTest weir(settings);
  HttpClient kept(weir.port());
  EXPECT_EQ(kept.exchange(post(chat, chat_body())).status, 200u);
  const Socket taken = Socket::listen(-1);
  const auto second = free_port(), third = free_port();
  settings.server["listen"] = "[" + quoted(at_loopback(second)) + ", " + quoted(at_loopback(taken.port())) + "]";
  settings.limits["first_token"] = "7";
  settings.pools[0].replicas[0].name = "renamed";
  weir.rewrite(settings);
  const auto refused = reload();
  EXPECT_EQ(refused.status, 400u);
  EXPECT_THAT(refused.body, HasSubstr("server.listen: cannot listen on " + at_loopback(taken.port())));
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u) << "the old one is open";
  EXPECT_THROW(Socket::connect(second), PeerGone) << "the new one is not";
  EXPECT_EQ(who_answers(weir), "r0");
  EXPECT_THAT(settings_in_use(), HasSubstr("\"limits.first_token\":\"5m\""));

  settings.server["listen"] = "[" + quoted(at_loopback(second)) + ", " + quoted(at_loopback(third)) + "]";
  weir.rewrite(settings);
  EXPECT_EQ(reload().status, 200u);
  for (const auto port : {second, third}) EXPECT_EQ(fetch(port, post(chat, chat_body())).status, 200u);
  EXPECT_EQ(kept.exchange(post(chat, chat_body())).status, 200u) << "who is in stays";
  EXPECT_THROW(Socket::connect(weir.port()), PeerGone);
}

TEST_F(Reload, TheRequestLogAndWeirsOwnFollow) {
  ScriptedReplica a(plays());
  auto settings = with_admin(pool_of({&a}));
  WeirUnderTest weir(settings);
  EXPECT_EQ(who_answers(weir), "r0");
  weir.log_lines(1);
  const auto other = weir.log_file().string() + ".other";
  settings.log = {
      {"requests", quoted(other)}, {"format", "\"json\""}, {"instance", "\"renamed\""}, {"level", "\"warning\""}};
  weir.rewrite(settings);
  EXPECT_EQ(reload().status, 200u);
  EXPECT_EQ(who_answers(weir), "r0");
  settings.log["requests"] = "\"/nowhere/at/all\"";
  settings.limits["first_token"] = "7";
  settings.pools[0].replicas[0].name = "renamed";
  weir.rewrite(settings);
  EXPECT_THAT(reload().body, HasSubstr("log.requests: cannot open the request log '/nowhere/at/all'"));
  EXPECT_THAT(settings_in_use(), HasSubstr("\"limits.first_token\":\"5m\""));
  EXPECT_EQ(who_answers(weir), "r0");
  weir.stop();
  const auto lines = read_file(other);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  EXPECT_THAT(lines, HasSubstr("\"instance\":\"renamed\""));
  EXPECT_THAT(weir.output(), HasSubstr("\"level\":\"error\",\"message\":\"reload: log.requests"));
  EXPECT_THAT(weir.output(), Not(HasSubstr("weir ends"))) << "that is no warning";
}

TEST_F(Reload, CheckSaysWhatAReloadWouldDo) {
  ScriptedReplica a(plays());
  auto settings = with_admin(pool_of({&a}));
  settings.pools[0].replicas[0].more["api_key"] = "\"planted-secret\"";
  WeirUnderTest weir(settings);
  const TemporaryDirectory directory;
  const auto old_file = (directory.path() / "old.toml").string(), file = weir.settings_file().string();
  std::filesystem::copy_file(file, old_file);
  const auto check = [&](const std::string& against) {
    return run_weir({"check", "--config", file, "--diff", against});
  };
  EXPECT_THAT(check(old_file).output, HasSubstr("a reload changes nothing"));
  settings.limits["first_token"] = "120";
  weir.rewrite(settings);
  for (const auto& against : {old_file, at_loopback(admin), "http://" + at_loopback(admin) + "/"}) {
    const auto done = check(against);
    EXPECT_EQ(done.exit.code, 0) << done.output;
    EXPECT_THAT(done.output, AllOf(HasSubstr("limits.first_token 5m -> 2m\n"), Not(HasSubstr("planted-secret"))));
  }
  EXPECT_THAT(check(at_loopback(admin)).output,
              HasSubstr("pool chat: replica r0: api_key: set in both; weir shows no secrets"));
  settings.server["threads"] = "5";
  weir.rewrite(settings);
  const auto restart = check(at_loopback(admin));
  EXPECT_EQ(restart.exit.code, 1);
  EXPECT_THAT(restart.output, HasSubstr("server.threads 2 -> 5: only a restart changes this"));
  const auto nobody = check(at_loopback(free_port()));
  EXPECT_EQ(nobody.exit.code, 1);
  EXPECT_THAT(nobody.output, HasSubstr("no weir answers at 127.0.0.1:"));
}

TEST_F(Reload, WhatTheCommandLineSaysIsNoChange) {
  ScriptedReplica a(plays());
  const auto settings = pool_of({&a});  // In the file, the admin listener is off.
  WeirUnderTest weir(settings, {"/bin/sh", "-c", "exec \"$@\" --admin-listen " + at_loopback(admin), "weir"});
  const auto done = run_weir({"check", "--config", weir.settings_file().string(), "--diff", at_loopback(admin)});
  EXPECT_EQ(done.exit.code, 0);
  EXPECT_THAT(done.output, HasSubstr("a reload changes nothing"));
  const auto reloaded = reload();
  EXPECT_EQ(reloaded.status, 200u);
  EXPECT_THAT(reloaded.body, HasSubstr("\"changes\":[]"));
}

/// docs/benchmarks.md has a thousand.
std::size_t reloads_wanted() {
  const char* const wanted = std::getenv("WEIR_RELOADS");
  return wanted == nullptr ? 200 : std::strtoul(wanted, nullptr, 10);
}

TEST_F(Reload, ManyUnderLoadOverNamesThatComeAndGoLoseNothing) {
  std::deque<ScriptedReplica> replicas;
  for (int i = 0; i < 8; ++i) replicas.emplace_back(plays());
  std::mt19937 random(20261122);
  const auto some = [&] {
    PoolKeys pool{.name = "chat", .replicas = {}};
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      if (random() % 2 == 0 && !(pool.replicas.empty() && i + 1 == replicas.size())) continue;
      pool.replicas.push_back({.name = "r" + std::to_string(i), .url = replicas[i].url()});
      if (random() % 3 == 0) pool.replicas.back().more["weight"] = std::to_string(1 + random() % 4);
    }
    pool.more["policy"] = random() % 5 == 0 ? "\"round_robin\"" : "\"least_queued_tokens\"";
    WeirSettings settings{.pools = {pool}};
    settings.limits["first_token"] = std::to_string(100 + random() % 5);
    if (random() % 4 == 0)
      settings.slos = {{{"name", "\"fast\""}, {"pool", "\"chat\""}, {"e2e", std::to_string(1 + random() % 9)}}};
    return with_admin(settings);
  };
  WeirUnderTest weir(some());
  std::size_t answered = 0;
  double descriptors = 0;
  std::size_t memory = 0, answered_then = 0;
  const auto wanted = reloads_wanted();
  {
    Load load(weir.port(), 6, post(chat, chat_body()), script.marker);
    for (std::size_t i = 0; i < wanted; ++i) {
      load.wait_for_more(random() % 8);
      weir.rewrite(some());
      const auto done = reload();
      ASSERT_EQ(done.status, 200u) << done.body;
      if (i == wanted / 4) {
        descriptors = weir.metrics().sum("process_open_fds");
        memory = weir.process().resident_memory();
        answered_then = load.answered();
      }
    }
    load.wait_for_more(20);
    load.stop();
    EXPECT_THAT(load.failures(), IsEmpty());
    answered = load.answered();
  }
  auto all = pool_of({});
  for (auto& replica : replicas)
    all.pools[0].replicas.push_back({.name = "r" + std::to_string(all.pools[0].replicas.size()), .url = replica.url()});
  weir.rewrite(with_admin(all));
  EXPECT_EQ(reload().status, 200u);
  const auto page = weir.metrics_when("the ledgers to be empty, and connections closed", [&](const MetricsPage& now) {
    return now.sum("weir_requests_in_flight") == 0 && now.sum("process_open_fds") <= descriptors;
  });
  expect_idle(page);
  EXPECT_EQ(weir.log_lines(answered).size(), answered);
  // weir keeps the last 50,000 requests for comparisons. A slow machine serves more of them between two reloads.
  const auto kept = 400 * std::min<std::size_t>(answered - answered_then, 50'000);
  const auto grown = static_cast<double>(weir.process().resident_memory()) / static_cast<double>(memory + kept);
  EXPECT_LT(grown, 1.3) << "of " << memory << " and " << kept << " for requests";
  RecordProperty("requests", static_cast<int>(answered));
  weir.stop();
  EXPECT_THAT(weir.output(), HasSubstr("SIGTERM, drained; " + std::to_string(answered) + " requests, " +
                                       std::to_string(answered) + " of them answered well"));
  std::size_t received = 0;
  for (const auto& replica : replicas) received += replica.requests().size();
  EXPECT_EQ(received, answered);
  std::cout << wanted << " reloads, " << answered << " requests, memory grew to " << grown << " of what it was\n";
}

TEST_F(Reload, IsRefusedOnceWeirDrains) {
  ScriptedReplica a(plays());
  auto settings = with_admin(pool_of({&a}));
  settings.limits["drain_delay"] = "30";
  WeirUnderTest weir(settings);
  weir.process().send(SIGTERM);
  weir.wait_until_said("draining");
  const auto refused = reload();
  EXPECT_EQ(refused.status, 409u);
  EXPECT_THAT(refused.body, HasSubstr("weir is draining"));
  weir.process().send(SIGHUP);
  weir.wait_until_said("reload (SIGHUP) refused: weir is draining");
  weir.stop();
}

}  // namespace
}  // namespace weir::integration
