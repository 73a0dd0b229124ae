// The state file of rollouts: it keeps where they stand, also where it cannot be written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "proxy/commands/commands.hpp"
#include "tests/unit/proxy/rollout/rollouts_of_a_fleet.hpp"
#include "tests/unit/proxy/said.hpp"

namespace weir::proxy::rollout {
namespace {

using ::testing::HasSubstr;

TEST_F(RolloutsOfAFleet, TheFileKeepsTheStanding) {
  begin();
  ask(Wish::start);
  ask(Wish::promote);
  show(1, balancer::Sign::answered, 10);
  for (int i = 0; i < 40; ++i) tick();
  rollouts->end();
  finish_writing();
  EXPECT_EQ(ask(Wish::abort), 409u) << "it is left to the next weir";
  const auto before = read_rollouts(path).rollouts.at("fp8");
  EXPECT_EQ(before.standing.share, 0.5);
  EXPECT_EQ(before.standing.in_step, 39);
  EXPECT_EQ(before.standing.failures.candidate, 10u);
  fleet::Fleet next(settings(), exposition, 2);
  Rollouts again(context, next, history, slow, read_rollouts(path));
  again.adopt(now);
  finish_writing();
  EXPECT_EQ(next.snapshot()->pools[0]->balancer->split().share, 0.5);
  EXPECT_EQ(read_rollouts(path).rollouts.at("fp8"), before);
}

/// An answer of the step before turns out to be a failure once another replica has answered better.
TEST_F(RolloutsOfAFleet, AFailureThatIsKnownInTheNextStepDoesNoHarmToTheFile) {
  begin();
  ask(Wish::start);
  tick();
  show(1, balancer::Sign::client_error, 3);
  show(0, balancer::Sign::client_error, 3);
  tick();
  ask(Wish::promote);
  show(1, balancer::Sign::outdone, 3);
  show(0, balancer::Sign::outdone, 3);
  tick();
  rollouts->end();
  finish_writing();
  const auto kept = read_rollouts(path).rollouts;
  ASSERT_TRUE(kept.contains("fp8"));
  EXPECT_EQ(kept.at("fp8").standing.share, 0.5);
  EXPECT_EQ(kept.at("fp8").standing.failures, (balancer::rollout::Counts{3, 3, 3, 3}));
}

TEST_F(RolloutsOfAFleet, WhereItStoodIsToldInPlainWords) {
  using balancer::rollout::State;
  const std::tuple<State, double, std::string, std::string> table[] = {
      {State::idle, 0, "", "rollout 'fp8' has not been started: its candidate gets no requests"},
      {State::live, 0.05, "it was started",
       "rollout 'fp8' stands where it stood when weir last ended: live at step \"5% 1m\": it was started"},
      {State::paused, 0.05, "", "rollout 'fp8' stands where it stood when weir last ended: paused at step \"5% 1m\""},
      {State::aborted, 0, "it was aborted",
       "rollout 'fp8' stands where it stood when weir last ended: aborted: it was aborted"}};
  for (const auto& [where, share, why, told] : table) {
    KeptRollout kept{"chat", "new", {}};
    kept.standing.state = where;
    kept.standing.share = share;
    kept.standing.why = why;
    ASSERT_EQ(write_rollouts(path, {{}, {{"fp8", kept}}}), std::nullopt);
    Said said;
    begin();
    EXPECT_THAT(said.take(), HasSubstr(told + "\n"));
    const auto status = commands::rollout_text(rollouts->list().body, "");
    if (where == State::idle)
      EXPECT_THAT(status, HasSubstr("\n  it has not been started: weir rollout start fp8 does so\n"));
    else
      EXPECT_THAT(status, testing::Not(HasSubstr("has not been started")));
  }
}

TEST_F(RolloutsOfAFleet, OfAnotherPoolOrCandidateIsAnotherThanThatOfTheFile) {
  KeptRollout kept{"chat", "new", {}};
  kept.standing.state = balancer::rollout::State::live;
  kept.standing.share = 0.05;
  const std::string same_pool = "chat", same_candidate = "new";
  for (const auto& [pool, candidate] :
       {std::pair(same_pool, same_candidate), std::pair<std::string, std::string>("other", same_candidate),
        std::pair<std::string, std::string>(same_pool, "old")}) {
    kept.pool = pool;
    kept.candidate = candidate;
    EXPECT_EQ(write_rollouts(path, {{}, {{"fp8", kept}}}), std::nullopt);
    begin();
    const bool is_it = pool == same_pool && candidate == same_candidate;
    EXPECT_EQ(state(), is_it ? "live" : "idle") << pool << ' ' << candidate;
    EXPECT_EQ(share(), is_it ? 0.05 : 0) << pool << ' ' << candidate;
  }
}

/// A weir that runs without the rollout forgets it, as a reload does.
TEST_F(RolloutsOfAFleet, WithoutItInTheSettingsAStartForgetsIt) {
  begin();
  ask(Wish::start);
  rollouts->end();
  finish_writing();
  auto without = settings();
  without.rollouts.clear();
  fleet::Fleet next(without, exposition, 2);
  Rollouts again(context, next, history, slow, read_rollouts(path));
  again.adopt(now);
  finish_writing();
  EXPECT_TRUE(read_rollouts(path).rollouts.empty());
}

TEST_F(RolloutsOfAFleet, WithoutItsFileNothingStartsAndWhatRunsCanEnd) {
  begin();
  ask(Wish::start);
  std::filesystem::remove_all(path);
  EXPECT_EQ(ask(Wish::pause), 200u);
  EXPECT_EQ(ask(Wish::promote), 503u);
  EXPECT_EQ(share(), 0.05);
  EXPECT_THAT(rollouts->list().body, HasSubstr("\"state_error\":\"the state of rollouts cannot be kept in "));
  EXPECT_EQ(ask(Wish::abort), 200u) << "whatever takes requests from a candidate is always possible";
  EXPECT_EQ(share(), 0);
}

TEST_F(RolloutsOnAFullDisk, TheCandidateGetsNoMoreOnceAWriteHasFailedAndUntilOneSucceeds) {
  begin();
  ask(Wish::start);
  fill_disk();
  EXPECT_EQ(ask(Wish::promote), 200u) << "nobody knows yet";
  EXPECT_EQ(share(), 0.5);
  EXPECT_EQ(share_after_restart(), 0.05);
  EXPECT_EQ(ask(Wish::promote), 503u);
  EXPECT_EQ(share(), 0.5);
  make_room();
  tick();
  tick();
  EXPECT_EQ(share_after_restart(), 0.5) << "it is tried again each second";
  EXPECT_EQ(ask(Wish::promote), 200u);
  EXPECT_EQ(share_after_restart(), 1);
}

TEST_F(RolloutsOfAFleet, AMoveWaitsForNoDiskAndTheEndForTheLastWrite) {
  begin();
  for (const Wish wanted : {Wish::start, Wish::promote, Wish::pause})
    EXPECT_EQ(rollouts->carry_out("fp8", wanted, now, "").status, 200u);
  EXPECT_EQ(share(), 0.5);
  rollouts->end();
  rollouts.reset();
  EXPECT_EQ(read_rollouts(path).rollouts.at("fp8").standing.state, balancer::rollout::State::paused);
  finish_writing();
}

TEST_F(RolloutsOfAFleet, AnotherDirectoryHasTheFileOnceTheReloadIsDone) {
  begin();
  ask(Wish::start);
  auto other = settings();
  other.admin.state = path / "other";
  std::filesystem::create_directories(other.admin.state);
  fleet.adopt(other);
  rollouts->adopt(now);
  EXPECT_EQ(read_rollouts(other.admin.state).rollouts.at("fp8").standing.share, 0.05);
}

TEST_F(RolloutsOnAFullDisk, AStepThatWouldPassPausesWithTheReasonThatItCannotBeKept) {
  auto patient = settings();
  patient.rollouts[0].unknown_limit = config::Seconds(60);
  fleet.adopt(patient);
  begin_about_to_pass();
  fill_disk();
  for (int i = 0; i < 40; ++i) tick();
  EXPECT_EQ(state(), "live");
  EXPECT_EQ(share(), 0.05);
  for (int i = 0; i < 60; ++i) tick();
  EXPECT_EQ(state(), "paused");
  EXPECT_THAT(rollouts->list().body,
              HasSubstr("\"why\":\"the gate was unknown for 1m: the state of rollouts cannot be kept in "));
}

/// A gate that stays unknown pauses a step after its least time; a state that cannot be kept is no such gate.
TEST_F(RolloutsOnAFullDisk, IsTheReasonWhyNoStepEndsAlsoWhereAnswersDiffer) {
  fleet.adopt(mirrored_settings());
  begin();
  ask(Wish::start);
  fleet.snapshot()->shadows[0]->state->began = now;
  for (int i = 0; i < 40; ++i) end_pair("stop", "tool_calls", std::chrono::seconds(30 * i));
  history.take(finished, now + std::chrono::milliseconds(1));
  for (int i = 0; i < 6; ++i) tick();
  finish_slow_answers();
  tick();
  EXPECT_THAT(rollouts->list().body, HasSubstr("answers: they differ"));
  fill_disk();
  for (int i = 0; i < 90; ++i) tick();
  EXPECT_EQ(state(), "shadow");
  make_room();
  for (int i = 0; i < 3; ++i) tick();
  EXPECT_EQ(state(), "paused");
  EXPECT_THAT(rollouts->list().body, HasSubstr("\"why\":\"the gate stays unknown however long the step lasts: "));
}

TEST_F(RolloutsOnAFullDisk, AReturnIsNotDelayedAndARestartFindsIt) {
  begin();
  ask(Wish::start);
  ask(Wish::promote);
  tick();
  fill_disk();
  show(0, balancer::Sign::answered, 40);
  show(1, balancer::Sign::failed, 40);
  tick();
  EXPECT_EQ(state(), "returned");
  EXPECT_EQ(share(), 0);
  EXPECT_THAT(rollouts->list().body, HasSubstr("cannot be kept in "));
  EXPECT_EQ(read_rollouts(path).rollouts.at("fp8").standing.state, balancer::rollout::State::returned)
      << "it was written over the old one";
  EXPECT_EQ(share_after_restart(), 0);
  make_room();
  tick();
  tick();
  EXPECT_THAT(rollouts->list().body, HasSubstr("\"state_error\":null")) << "it is tried again each second";
}

TEST_F(RolloutsOnAFullDisk, APauseOutlastsARestart) {
  begin();
  ask(Wish::start);
  fill_disk();
  EXPECT_EQ(ask(Wish::pause), 200u);
  EXPECT_EQ(read_rollouts(path).rollouts.at("fp8").standing.state, balancer::rollout::State::paused);
  EXPECT_EQ(share_after_restart(), 0.05);
}

/// Anything in any order, on a disk that is full now and then: what a restart finds is never more than what the pool
/// gives, and what takes from the candidate is done at once.
TEST_F(RolloutsOnAFullDisk, TheFileNeverGivesMoreThanThePool) {
  std::mt19937_64 random(25);
  begin();
  std::map<std::string, int> states;
  for (int i = 0; i < 600; ++i) {
    switch (random() % 10) {
      case 0:
        fill_disk();
        break;
      case 1:
        make_room();
        break;
      case 2:
      case 3:
        ask(Wish::start);
        break;
      case 4:
        ask(Wish::promote);
        break;
      case 5:
        if (random() % 4 == 0) {
          ask(Wish::abort);
          ASSERT_EQ(share(), 0);
        }
        break;
      case 6:
        if (random() % 4 == 0) {
          show(1, balancer::Sign::failed, 60);
          show(0, balancer::Sign::answered, 60);
        }
        tick();
        break;
      case 7:
        ask(Wish::pause);
        break;
      default:
        tick();
    }
    ++states[state()];
    const auto kept = read_rollouts(path).rollouts;
    const auto found = kept.find("fp8");
    if (found != kept.end()) {
      ASSERT_GE(*share(), found->second.standing.share) << "what was taken is not given back by a restart; " << i;
      if (found->second.standing.state == balancer::rollout::State::live) {
        ASSERT_EQ(state(), "live") << "what was stopped does not go on after a restart; " << i;
      }
    }
  }
  for (const auto* name : {"live", "paused", "done", "aborted", "returned"}) EXPECT_GT(states[name], 0) << name;
}

}  // namespace
}  // namespace weir::proxy::rollout
