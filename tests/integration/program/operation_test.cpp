// The operator's means when something is wrong: commands that say how it ended, listeners that let him in, and a
// log that tells what it lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <deque>
#include <filesystem>
#include <thread>

#include "tests/integration/peers/keys_file.hpp"
#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/operated_weir.hpp"
#include "tests/integration/peers/simulated_replica.hpp"

namespace weir::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Operation : public OperatedWeir {};

TEST_F(Operation, WeirReloadSaysWhatHasChangedOrWhyNothingHas) {
  ScriptedReplica a(plays());
  auto settings = with_admin(pool_of({&a}));
  settings.admin["token"] = quoted("abcdef");
  WeirUnderTest weir(settings);
  const auto file = weir.settings_file().string();
  const auto reload = [&] { return run_weir({"reload", "--config", file}); };
  settings.limits["first_token"] = "17";
  weir.rewrite(settings);
  const auto done = reload();
  EXPECT_EQ(done.exit.code, 0);
  EXPECT_EQ(done.output, "limits.first_token 5m -> 17s\n");
  EXPECT_EQ(reload().output, "reloaded: nothing has changed\n");
  const auto nobody = command({"reload"});
  EXPECT_EQ(nobody.exit.code, 1) << "without the token";
  EXPECT_THAT(nobody.output, HasSubstr("needs its token"));

  settings.server["threads"] = "3";
  weir.rewrite(settings);
  const auto failed = reload();
  EXPECT_EQ(failed.exit.code, 1);
  EXPECT_THAT(failed.output, AllOf(HasSubstr("server.threads 2 -> 3: only a restart changes this"),
                                   HasSubstr("weir reload: the settings cannot be used, and nothing has changed")));
  write_file(file + ".token", "abcdef\n");
  look_until("the failure in the status", [&] {
    const auto status = run_weir({"status", "--admin", at_loopback(admin), "--token-file", file + ".token"}).output;
    return status.find("the last reload FAILED") != status.npos && status.find("server.threads 2 -> 3") != status.npos;
  });
  settings.server["threads"] = "2";
  settings.server["thread"] = "2";
  weir.rewrite(settings);
  const auto wrong = reload();
  EXPECT_EQ(wrong.exit.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("thread: unknown key"));
}

TEST_F(Operation, WeirReloadSendsHupWhereNoAdminListenerAnswers) {
  ScriptedReplica a(plays());
  auto settings = pool_of({&a});
  WeirUnderTest weir(settings);
  const auto pid = std::to_string(weir.process().id());
  const auto reload = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"reload", "--config", weir.settings_file().string()};
    words.insert(words.end(), more.begin(), more.end());
    return run_weir(words);
  };
  EXPECT_THAT(reload({}).output, HasSubstr("name weir's process by --pid"));
  settings.limits["first_token"] = "17";
  weir.rewrite(settings);
  const auto off = reload({"--pid", pid});
  EXPECT_EQ(off.exit.code, 0);
  EXPECT_EQ(off.output, "HUP sent to process " + pid + ": weir's log says how the reload ends\n");
  weir.wait_until_said("reload (SIGHUP): limits.first_token 5m -> 17s");
  // The file switches the listener on, and only the reload will open it.
  weir.rewrite(with_admin(settings));
  const auto new_one = reload({"--pid", pid});
  EXPECT_EQ(new_one.exit.code, 0);
  EXPECT_THAT(new_one.output, AllOf(HasSubstr("no weir answers at"), HasSubstr("HUP sent to process " + pid)));
  weir.wait_until_said("reload (SIGHUP): admin.listen");
  EXPECT_EQ(reload({"--pid", pid}).output, "reloaded: nothing has changed\n");
}

TEST_F(Operation, AKeyIsTakenBackThoughTheLogCannotBeOpenedAgain) {
  ScriptedReplica a(plays());
  const KeysFile keys;
  const auto taken_back = keys.add("taken-back");
  keys.add("other");
  auto settings = keys.asked_by(with_admin(pool_of({&a})));
  WeirUnderTest weir(settings);
  const auto ask = [&] { return fetch(weir.port(), post(chat, chat_body(), bearer(taken_back))).status; };
  EXPECT_EQ(ask(), 200u);
  std::filesystem::rename(weir.log_file(), weir.log_file().string() + ".1");
  std::filesystem::create_directory(weir.log_file());
  keys.remove("taken-back");
  const auto reloaded = command({"reload"});
  EXPECT_EQ(reloaded.exit.code, 0) << reloaded.output;
  EXPECT_EQ(ask(), 401u);
  weir.wait_until_said("reload: cannot open the request log");
  // Another path is a change that was wanted, and it fails.
  settings.log["requests"] = quoted(weir.log_file().string() + "/no/such");
  weir.rewrite(settings);
  EXPECT_EQ(command({"reload"}).exit.code, 1);
}

TEST_F(Operation, HalfHeadsAtTheMetricsListenerKeepNobodyOut) {
  ScriptedReplica a(plays());
  WeirUnderTest weir(with_admin(pool_of({&a})));
  const auto status = [&](std::uint16_t port, const std::string& path) { return get_admin(port, path).status; };
  std::deque<HttpClient> attackers;
  for (int i = 0; i < 200; ++i) {
    attackers.emplace_back(weir.metrics_port());
    attackers.back().send("GET /metrics HTTP/1.1\r\nX: ");
    if (i % 50 == 49) {
      EXPECT_EQ(status(admin, "/api/live"), 200u);
      EXPECT_EQ(status(weir.metrics_port(), "/-/healthy"), 200u);
    }
  }
  EXPECT_EQ(command({"status"}).exit.code, 0);
  weir.wait_until_said("64 connections to the metrics listener are open: the oldest goes");
  for (int i = 0; i < 200; ++i) attackers.emplace_back(admin).send("GET /api/live HTTP/1.1\r\nX: ");
  EXPECT_EQ(status(admin, "/api/live"), 200u) << "and those of its own keep nobody out either";
  EXPECT_TRUE(attackers.back().closed_by_server()) << "5 s are over";
}

TEST_F(Operation, UndrainWaitsNoLongerThanItIsTold) {
  ScriptedReplica a(plays());
  auto settings = with_admin(pool_of({&a}));
  settings.pools[0].replicas.push_back({.name = "gone", .url = "http://" + at_loopback(free_port())});
  WeirUnderTest weir(settings);
  weir.wait_until_said("replica 'gone' is down");
  EXPECT_EQ(command({"drain", "gone", "--wait"}).exit.code, 0);
  const auto told = command({"undrain", "gone"});
  EXPECT_EQ(told.exit.code, 0);
  EXPECT_THAT(told.output, AllOf(StartsWith("gone drains no more, but it is down (it refuses connections)"),
                                 HasSubstr("--wait waits for it")));
  const auto waited = command({"undrain", "gone", "--wait", "300ms"});
  EXPECT_EQ(waited.exit.code, 1);
  EXPECT_THAT(waited.output, HasSubstr("gone takes no requests after 0.3 s: it is down (it refuses connections)"));
  const auto wrong = run_weir({"undrain", "gone", "--wait", "soon"});
  EXPECT_EQ(wrong.exit.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("\"soon\" is no time"));
}

/// The recipe of docs/guides/drain.md, with engines that are away for so long that weir probes them only now and then.
TEST_F(Operation, ARollingRestartPassesItsSecondReplicaThoughTheFirstWasAwayForLong) {
  std::deque<SimulatedReplica> engines;
  WeirSettings settings{.pools = {{.name = "chat", .replicas = {}, .more = {}}}};
  for (int i = 0; i < 2; ++i) {
    engines.emplace_back(std::vector<std::string>{"--speed", "20"});
    settings.pools[0].replicas.push_back({.name = "r" + std::to_string(i), .url = engines.back().url()});
  }
  WeirUnderTest weir(with_admin(settings));
  for (int i = 0; i < 2; ++i) {
    const auto name = "r" + std::to_string(i);
    const auto drained = command({"drain", name, "--wait"});
    ASSERT_EQ(drained.exit.code, 0) << drained.output;
    engines[static_cast<std::size_t>(i)].kill();
    weir.wait_until_said("replica '" + name + "' is down");
    // The probes come 0.2, 0.4, 0.8 and 1.6 s one after the other, and the next one 3.2 s later.
    std::this_thread::sleep_for(std::chrono::milliseconds(3100));
    engines[static_cast<std::size_t>(i)].start();
    const auto undrained = command({"undrain", name, "--wait"});
    EXPECT_EQ(undrained.exit.code, 0);
    EXPECT_EQ(undrained.output, name + " takes requests\n");
  }
}

}  // namespace
}  // namespace weir::integration
