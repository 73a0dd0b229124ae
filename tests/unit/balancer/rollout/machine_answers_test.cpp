// A rollout whose candidate answers otherwise pauses, goes back or goes on, as its settings say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/balancer/rollout/machine_fixture.hpp"

namespace weir::balancer::rollout::steps {
namespace {

class RolloutMachineWhereAnswersDiffer : public RolloutMachine {
 protected:
  void begin_with(config::OtherAnswers answers) {
    auto other = settings(true);
    other.answers = answers;
    machine = Machine(other);
    expect_move(machine.start(), Reason::start);
    tick(Word::unknown, 0);
  }
  std::optional<Move> differ(int seconds, bool passes = true, Word gate = Word::unknown) {
    std::optional<Move> move;
    for (int i = 0; i < seconds && !move; ++i) {
      Tick tick{.now = at(now += 1), .gate = gate, .why = "ttft: too few requests; answers: they differ"};
      tick.answers = "answers: they differ";
      tick.passes_but_for_answers = passes;
      move = machine.tick(tick);
    }
    return move;
  }
};

TEST_F(RolloutMachineWhereAnswersDiffer, ItPausesAfterTheLeastTime) {
  for (const bool passes : {false, true}) {
    begin_with(config::OtherAnswers::look);
    EXPECT_FALSE(differ(59, passes));
    expect_move(differ(1, passes), Reason::unknown,
                "shadow -> paused at shadow: the gate stays unknown however long the step lasts: answers: they differ");
    expect_move(machine.promote(), Reason::promote);
    EXPECT_FALSE(tick(Word::unknown, 200)) << "of this step's answers nothing is known";
  }
}

TEST_F(RolloutMachineWhereAnswersDiffer, ItGoesBackAtOnceIfTheyHaveToBeTheSame) {
  begin_with(config::OtherAnswers::same);
  EXPECT_FALSE(tick(Word::unknown, 30)) << "nothing is known of them yet";
  expect_move(differ(1, false), Reason::answers,
              "shadow -> returned: the candidate has to answer the same; answers: they differ");
  begin_with(config::OtherAnswers::same);
  expect_move(machine.pause(), Reason::pause);
  expect_move(differ(1), Reason::answers);
  begin_with(config::OtherAnswers::same);
  expect_move(differ(1, false, Word::worse), Reason::worse);
}

TEST_F(RolloutMachineWhereAnswersDiffer, ItGoesOnIfTheyDoNotCount) {
  begin_with(config::OtherAnswers::any);
  EXPECT_FALSE(differ(200, false)) << "the gate is unknown for other reasons, too";
  expect_move(differ(1), Reason::pass, "the gate passed but for the answers, which may differ, after 201s");
  begin_with(config::OtherAnswers::any);
  EXPECT_FALSE(differ(59)) << "a step has its least time";
  expect_move(differ(1), Reason::pass);
  expect_move(machine.pause(), Reason::pause);
  begin_with(config::OtherAnswers::any);
  expect_move(differ(1, false, Word::worse), Reason::worse);
  begin_with(config::OtherAnswers::any);
  expect_move(differ(1000, false), Reason::unknown, "the gate was unknown for 5m");
}

TEST_F(RolloutMachine, AGateThatWasNotAskedDoesNotStayUnknown) {
  begin();
  // A full disk takes the gate's word away, and what it last said of the answers is no reason to pause.
  for (int i = 0; i < 200; ++i)
    EXPECT_FALSE(machine.tick({at(now += 1), std::nullopt, "the disk is full", {}, {}, false, {}, {},
                               "answers: they differ"}));
  expect_move(tick(Word::unknown, 100), Reason::unknown,
              "shadow -> paused at shadow: the gate was unknown for 5m: ttft: why");
}

TEST_F(RolloutMachine, WhatMoreRequestsDoNotMakeKnownHoldsUpNoStepThatPassesByItsShadow) {
  begin();
  expect_move(tick(Word::pass, 60), Reason::pass);
  std::optional<Move> move;
  for (int i = 0; i < 40 && !move; ++i) {
    const Counts failures{1, 0, 19, 0};
    move = machine.tick({at(now += 1), Word::unknown, "answers: differ", failures, {}, false, {}, {},
                         "answers: differ"});
  }
  expect_move(move, Reason::pass, "5% -> 50%: nothing is worse than in the shadow step");
}

}  // namespace
}  // namespace weir::balancer::rollout::steps
