// A rollout gives a candidate a growing share of the requests, goes back by itself, and outlasts reloads and restarts;
// and other controllers ask for the gate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <thread>

#include "tests/integration/peers/load.hpp"
#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/operated_weir.hpp"

namespace weir::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr auto ten_minutes = "['5% 10m', '50% 10m', '100%']";
/// Each request of this body is on a side by itself: a conversation begins with a message of the user.
constexpr auto body_without_conversation =
    R"({"model":"m","messages":[{"role":"system","content":"Say something."}],"stream":true,"max_tokens":256})";

class Rollout : public OperatedWeir {
 protected:
  /// r0 is the stable side, and r1 the candidate.
  WeirSettings settings(const ScriptedReplica& stable, const ScriptedReplica& candidate,
                        const std::string& steps = ten_minutes) const {
    auto all = with_admin(pool_of({&stable, &candidate}));
    all.admin["state"] = quoted(state.path().string());
    all.pools[0].replicas[0].more["config"] = "\"old\"";
    all.pools[0].replicas[1].more["config"] = "\"new\"";
    all.health["interval"] = "\"100ms\"";
    all.rollouts = {{{"name", "\"fp8\""}, {"pool", "\"chat\""}, {"candidate", "\"new\""}, {"steps", steps}}};
    return all;
  }
  boost::json::object rollout() const {
    return boost::json::parse(get_admin(admin, "/api/rollout").body).at("rollouts").at(0).as_object();
  }
  std::string state_now() const { return member(rollout(), "state"); }
  void wait_for(const std::string& wanted) const {
    look_until("the rollout to be " + wanted, [&] { return state_now() == wanted; });
  }
  void expect_done(const std::vector<std::string>& words) const {
    const auto done = command(words);
    EXPECT_EQ(done.exit.code, 0) << done.output;
  }
  /// Returns the replica that answered each of so many conversations.
  static std::map<int, std::string> replicas_by_conversation(const WeirUnderTest& weir, int conversations) {
    std::map<int, std::string> by_conversation;
    for (int i = 0; i < conversations; ++i) {
      const auto got = fetch(weir.port(), post(chat, chat_body("conversation " + std::to_string(i))));
      EXPECT_EQ(got.status, 200u);
      by_conversation[i] = got.head.field("x-weir-replica").value_or("");
    }
    return by_conversation;
  }
  static std::size_t on_candidate(const std::map<int, std::string>& by_conversation) {
    std::size_t count = 0;
    for (const auto& [conversation, replica] : by_conversation) count += replica == "r1";
    return count;
  }

  TemporaryDirectory state;
};

TEST_F(Rollout, ACandidateGetsNothingBeforeTheStartAndItsShareAfterIt) {
  ScriptedReplica stable(plays()), candidate(plays());
  WeirUnderTest weir(settings(stable, candidate));
  EXPECT_EQ(on_candidate(replicas_by_conversation(weir, 30)), 0u);
  EXPECT_EQ(command({"rollout", "start"}).output, "rollout 'fp8': idle -> 5%: it was started\n");
  EXPECT_EQ(command({"rollout", "promote", "fp8"}).output,
            "rollout 'fp8': 5% -> 50%: it was promoted (0 of 0 of the candidate's requests failed, 0 of 0 of the "
            "others)\n");
  const auto first = replicas_by_conversation(weir, 60);
  EXPECT_GT(on_candidate(first), 10u);
  EXPECT_LT(on_candidate(first), 50u);
  EXPECT_EQ(replicas_by_conversation(weir, 60), first) << "a conversation stays on its side";
  const auto page = weir.metrics();
  EXPECT_EQ(page.sum("weir_rollout_share", {{"rollout", "fp8"}}), 0.5);
  EXPECT_EQ(page.sum("weir_rollout_state", {{"state", "live"}}), 1);
  EXPECT_EQ(page.sum("weir_rollout_state"), 1);
  EXPECT_EQ(page.sum("weir_rollout_moves_total", {{"reason", "promote"}}), 1);
  EXPECT_EQ(page.sum("weir_rollout_crossed_total"), 0);
  expect_done({"rollout", "promote"});
  EXPECT_EQ(on_candidate(replicas_by_conversation(weir, 20)), 20u);
  EXPECT_THAT(command({"rollout", "status"}).output,
              StartsWith("fp8: done at step \"100%\", 100% of pool chat to new\n"));
  expect_done({"rollout", "abort"});
  EXPECT_EQ(on_candidate(replicas_by_conversation(weir, 20)), 0u);
}

TEST_F(Rollout, ACandidateThatFailsGoesBackWithinSecondsAndClientsAreServed) {
  ScriptedReplica stable(plays());
  ScriptedReplica candidate([this](Exchange& exchange) {
    if (exchange.request().number % 10 == 0) return exchange.send(answer("500 Internal Server Error", "{}"));
    play(exchange, script);
  });
  WeirUnderTest weir(settings(stable, candidate));
  expect_done({"rollout", "start"});
  expect_done({"rollout", "promote"});
  Load load(weir.port(), 4, post(chat, body_without_conversation), script.marker);
  wait_for("returned");
  EXPECT_THAT(member(rollout(), "why"),
              AllOf(HasSubstr("of the candidate's requests failed, "), HasSubstr("evidence")));
  load.wait_for_more(20);  // Those that were under way.
  const auto before = candidate.requests().size();
  load.wait_for_more(200);
  EXPECT_EQ(candidate.requests().size(), before) << "not one more";
  load.stop();
  EXPECT_THAT(load.failures(), IsEmpty());
  weir.wait_until_said("rollout 'fp8': 50% -> returned: ");
  EXPECT_EQ(weir.metrics().sum("weir_rollout_moves_total", {{"reason", "failures"}}), 1);
  EXPECT_EQ(weir.metrics().sum("weir_rollout_share"), 0);
}

TEST_F(Rollout, AReloadAndARestartKeepShareStepAndSides) {
  ScriptedReplica stable(plays()), candidate(plays());
  auto all = settings(stable, candidate);
  std::map<int, std::string> sides;
  {
    WeirUnderTest weir(all);
    expect_done({"rollout", "start"});
    expect_done({"rollout", "promote"});
    sides = replicas_by_conversation(weir, 40);
    all.limits["first_token"] = "17";
    weir.reload(all, "limits.first_token 5m -> 17s");
    EXPECT_EQ(replicas_by_conversation(weir, 40), sides) << "a reload moves nobody";
    expect_done({"rollout", "pause"});
    EXPECT_EQ(replicas_by_conversation(weir, 40), sides) << "a pause moves nobody";
  }
  {
    WeirUnderTest weir(all);
    weir.wait_until_said(
        "rollout 'fp8' stands where it stood when weir last ended: paused at step \"50% 10m\": it was paused");
    EXPECT_EQ(replicas_by_conversation(weir, 40), sides) << "a restart moves nobody";
    expect_done({"rollout", "start"});
    EXPECT_EQ(state_now(), "live");
  }
}

/// The gate of a shadow step takes minutes to pass, so an earlier weir has seen that.
TEST_F(Rollout, PassesThroughTheStepsByItself) {
  ScriptedReplica stable(plays()), candidate(plays());
  auto all = settings(stable, candidate, "['shadow 1s', '25% 1s', '50% 1s', '100%']");
  all.rollouts[0]["shadow"] = "\"mirror\"";
  all.shadows = {{"mirror", {{"copy", candidate.url(), {{"config", "\"new\""}}}}, {{"twin", "\"r0\""}}}};
  write_file(state.path() / "rollouts.json",
             R"({"conversation_key":null,"rollouts":[{"name":"fp8","pool":"chat","candidate":"new","state":"live",)"
             R"("share":0.25,"in_step_seconds":0,"unknown_seconds":0,"shadow_passed":true,)"
             R"("failures":{"candidate":0,"candidate_bad":0,"stable":0,"stable_bad":0},)"
             R"("misses":{"candidate":0,"candidate_bad":0,"stable":0,"stable_bad":0},"why":"the gate passed"}]})");
  WeirUnderTest weir(all);
  weir.wait_until_said("shadow 'mirror' is off");
  Load load(weir.port(), 4, post(chat, body_without_conversation), script.marker);
  weir.wait_until_said("rollout 'fp8': 25% -> 50%: nothing is worse than in the shadow step, after ");
  weir.wait_until_said("rollout 'fp8': 50% -> 100%: nothing is worse than in the shadow step, after ");
  wait_for("done");
  load.wait_for_more(20);  // Those that were under way.
  const auto before = stable.requests().size();
  load.wait_for_more(100);
  EXPECT_EQ(stable.requests().size(), before);
  load.stop();
  EXPECT_THAT(load.failures(), IsEmpty());
}

TEST_F(Rollout, TheShadowStepMirrorsAndGivesNoLiveRequest) {
  ScriptedReplica stable(plays()), candidate(plays());
  auto all = settings(stable, candidate, "['shadow 10m', '50% 10m', '100%']");
  all.rollouts[0]["shadow"] = "\"mirror\"";
  all.shadows = {{"mirror", {{"copy", candidate.url(), {{"config", "\"new\""}}}}, {{"twin", "\"r0\""}}}};
  WeirUnderTest weir(all);
  expect_done({"rollout", "start"});
  EXPECT_EQ(state_now(), "shadow");
  look_until("a request to be mirrored", [&] {
    EXPECT_EQ(who_answers(weir), "r0");
    return !candidate.requests().empty();
  });
  expect_done({"rollout", "abort"});
  weir.wait_until_said("shadow 'mirror' is off");
}

TEST_F(Rollout, ACommandThatDoesNotFitSaysWhy) {
  ScriptedReplica stable(plays()), candidate(plays());
  WeirUnderTest weir(settings(stable, candidate));
  EXPECT_EQ(command({"rollout", "promote"}).output,
            "weir rollout: the rollout 'fp8' is idle; only one that is under way can be promoted; start begins one\n");
  EXPECT_EQ(command({"rollout", "start", "fp9"}).output,
            "weir rollout: no rollout is named 'fp9'; GET /api/rollout lists them\n");
  EXPECT_EQ(command({"rollout", "begin"}).exit.code, 2);
  EXPECT_EQ(post_admin(admin, "/api/rollout/fp8/pause").status, 409u);
  EXPECT_EQ(get_admin(admin, "/api/rollout/fp8/start").status, 405u);
}

TEST_F(Rollout, AReloadThatMovesItsStateWhereItCannotBeKeptIsRefused) {
  ScriptedReplica stable(plays()), candidate(plays());
  auto all = settings(stable, candidate);
  WeirUnderTest weir(all);
  expect_done({"rollout", "start"});
  expect_done({"rollout", "promote"});
  const auto sides = replicas_by_conversation(weir, 40);
  const auto other = state.path() / "other";
  all.admin["state"] = quoted(other.string());
  weir.rewrite(all);
  const auto refused = command({"reload"});
  EXPECT_EQ(refused.exit.code, 1);
  EXPECT_THAT(refused.output, AllOf(HasSubstr("[admin] state = \"" + other.string() +
                                              "\": the state of rollouts cannot be "
                                              "kept there: No such file or directory; make it a directory"),
                                    HasSubstr(".toml:")));
  EXPECT_EQ(replicas_by_conversation(weir, 40), sides);
  std::filesystem::create_directory(other);
  expect_done({"reload"});
  EXPECT_EQ(replicas_by_conversation(weir, 40), sides);
  EXPECT_THAT(read_file(other / "rollouts.json"), HasSubstr("\"share\":5E-1"));
}

/// The request of Flagger (a webhook), as its documents and sources have it.
class GateForOthers : public Rollout {
 protected:
  WeirSettings shadowed(const ScriptedReplica& primary, const ScriptedReplica& candidate) const {
    auto all = pool_of({&primary});
    all.shadows = {{"fp8", {{"cand0", candidate.url(), {{"config", "\"fp8\""}}}}, {{"twin", "\"r0\""}}}};
    return all;
  }
};

TEST_F(GateForOthers, FlaggerPostsToTheMetricsListener) {
  ScriptedReplica primary(plays()), candidate(plays());
  WeirUnderTest weir(shadowed(primary, candidate));
  const std::string body =
      R"({"name":"vllm","namespace":"prod","phase":"Progressing","checksum":"85d557f47b","metadata":{"type":"gate"}})";
  const auto request = [&](const std::string& path) {
    return "POST " + path + " HTTP/1.1\r\nHost: weir.prod:9090\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n" + body;
  };
  const auto got = fetch(weir.metrics_port(), request("/api/gate?shadow=fp8"));
  EXPECT_EQ(got.status, 425u) << "nothing is known, so Flagger counts a failed check";
  EXPECT_EQ(fetch(weir.metrics_port(), request("/api/gate?shadow=fp8&expect=worse")).status, 425u) << "no rollback";
  EXPECT_EQ(fetch(weir.metrics_port(), request("/api/gate?shadow=fp9")).status, 404u);
  EXPECT_EQ(fetch(weir.metrics_port(), request("/metrics")).status, 405u);
}

}  // namespace
}  // namespace weir::integration
