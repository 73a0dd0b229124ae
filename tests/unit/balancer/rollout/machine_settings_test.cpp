// A rollout goes on with other settings, and where an earlier process stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/balancer/rollout/machine_fixture.hpp"

namespace weir::balancer::rollout::steps {
namespace {

TEST_F(RolloutMachine, GoesOnWhereAnEarlierProcessStopped) {
  begin();
  expect_move(tick(Word::pass, 60), Reason::pass);
  EXPECT_FALSE(tick_with({10, 1, 190, 2}));
  Machine next{settings()};
  EXPECT_FALSE(next.restore(machine.standing()));
  EXPECT_EQ(next.standing(), machine.standing());
  EXPECT_FALSE(next.tick({at(1e6), Word::unknown, "", {}, {}, false})) << "the time between does not count";
  EXPECT_EQ(next.standing(), machine.standing());
}

TEST_F(RolloutMachine, OtherTimesOfTheSameStepsChangeNothingElse) {
  begin();
  machine.promote();
  auto other = settings();
  other.steps[1].least = Seconds(5);
  EXPECT_FALSE(machine.adopt(other));
  expect(State::live, 0.05);
  EXPECT_FALSE(tick(Word::pass, 4));
  expect_move(tick(Word::pass), Reason::pass);
}

TEST_F(RolloutMachine, AStepThatIsGonePausesAtTheOneBelow) {
  begin();
  machine.promote();
  machine.promote();
  expect(State::live, 0.5);
  auto other = settings();
  other.steps[2].share = 0.6;
  expect_move(machine.adopt(other), Reason::settings,
              "rollout 'fp8': 50% -> paused at 5%: its step 50% is no longer in the settings");
  expect(State::paused, 0.05);
  EXPECT_EQ(machine.standing().why, "its step 50% is no longer in the settings");
  other.steps.erase(other.steps.begin(), other.steps.begin() + 2);
  expect_move(machine.adopt(other), Reason::settings,
              "rollout 'fp8': paused at 5% -> idle: its step 5% is no longer in the settings");
  expect(State::idle, 0);
}

TEST_F(RolloutMachine, AShadowStepThatIsGoneMakesItIdle) {
  begin();
  expect_move(machine.adopt(settings(false)), Reason::settings, "shadow -> idle: its step shadow is no longer");
  expect(State::idle, 0);
}

TEST_F(RolloutMachine, AStepMayMoveAmongTheOthers) {
  begin();
  machine.promote();
  machine.promote();
  auto other = settings();
  other.steps.insert(other.steps.begin() + 1, {false, 0.01, Seconds(10)});
  EXPECT_FALSE(machine.adopt(other));
  expect(State::live, 0.5);
  EXPECT_EQ(machine.step_text(), "50% 30s");
  expect_move(machine.promote(), Reason::promote);
  expect(State::done, 1);
}

TEST_F(RolloutMachine, AnotherCandidateIsAnotherRollout) {
  begin();
  machine.promote();
  auto other = settings();
  other.candidate = "newer";
  expect_move(machine.adopt(other), Reason::settings);
  expect(State::idle, 0);
  EXPECT_FALSE(machine.adopt(settings())) << "an idle one has nothing to lose";
}

TEST_F(RolloutMachine, ADoneOneStaysDoneWhateverTheSteps) {
  begin();
  for (int i = 0; i < 3; ++i) machine.promote();
  auto other = settings(false);
  other.steps.erase(other.steps.begin());
  EXPECT_FALSE(machine.adopt(other));
  expect(State::done, 1);
  Machine next{other};
  EXPECT_FALSE(next.restore(machine.standing()));
  EXPECT_EQ(next.share(), 1);
}

}  // namespace
}  // namespace weir::balancer::rollout::steps
