// A rollout whose candidate answers otherwise: what its settings say of that is done, from the gate to the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/rollout/rollouts_of_a_fleet.hpp"

namespace weir::proxy::rollout {
namespace {

using ::testing::HasSubstr;

/// The shadow has answered an hour of requests as fast as the primary, but it calls tools where the primary does not.
class RolloutsWhereAnswersDiffer : public RolloutsOnAFullDisk {
 protected:
  void begin_with(config::OtherAnswers answers) {
    auto all = mirrored_settings();
    all.rollouts[0].answers = answers;
    fleet.adopt(all);
    begin();
    ask(Wish::start);
    fleet.snapshot()->shadows[0]->state->began = now;
    constexpr std::chrono::milliseconds every{500};
    for (int i = 0; i < 7300; ++i) end_pair("stop", i % 50 == 0 ? "tool_calls" : "stop", i * every);
    history.take(finished, now + std::chrono::milliseconds(1));
  }
  /// Until the gate has been asked, and has answered.
  void hear_gate() {
    for (int i = 0; i < 6; ++i) tick();
    finish_slow_answers();
    tick();
    EXPECT_THAT(rollouts->list().body, HasSubstr("answers: they differ"));
  }
};

TEST_F(RolloutsWhereAnswersDiffer, ItGoesOnWhereTheyDoNotCount) {
  begin_with(config::OtherAnswers::any);
  hear_gate();
  EXPECT_EQ(state(), "shadow") << "a step has its least time";
  for (int i = 0; i < 60; ++i) tick();
  EXPECT_EQ(state(), "live");
  EXPECT_EQ(share(), 0.05);
  EXPECT_EQ(moves("pass"), 1u);
  EXPECT_THAT(rollouts->list().body, HasSubstr("the gate passed but for the answers, which may differ"));
  EXPECT_EQ(share_after_restart(), 0.05);
}

TEST_F(RolloutsWhereAnswersDiffer, AFullDiskEndsNoStepAndIsNoReasonToPause) {
  begin_with(config::OtherAnswers::any);
  hear_gate();
  fill_disk();
  for (int i = 0; i < 90; ++i) tick();
  EXPECT_EQ(state(), "shadow");
  make_room();
  for (int i = 0; i < 3; ++i) tick();
  EXPECT_EQ(state(), "live");
}

TEST_F(RolloutsWhereAnswersDiffer, ItGoesBackAtOnceWhereTheyHaveToBeTheSame) {
  for (const bool on_a_full_disk : {false, true}) {
    for (const bool paused : {false, true}) {
      SCOPED_TRACE(std::to_string(on_a_full_disk) + std::to_string(paused));
      begin_with(config::OtherAnswers::same);
      if (paused) ask(Wish::pause);
      if (on_a_full_disk) fill_disk();
      hear_gate();
      EXPECT_EQ(state(), "returned");
      EXPECT_EQ(moves("answers"), 1u);
      EXPECT_FALSE(fleet.snapshot()->shadows[0]->state->on);
      make_room();
      tick();
    }
  }
}

TEST_F(RolloutsWhereAnswersDiffer, AReloadLetsAPausedOneGoOnOnceItIsStarted) {
  begin_with(config::OtherAnswers::look);
  hear_gate();
  for (int i = 0; i < 60; ++i) tick();
  EXPECT_EQ(state(), "paused");
  auto all = fleet.snapshot()->settings;
  all.rollouts[0].answers = config::OtherAnswers::any;
  adopt(all);
  hear_gate();
  EXPECT_EQ(state(), "paused") << "an operator starts it";
  ask(Wish::start);
  tick();  // The gate is asked anew.
  finish_slow_answers();
  tick();
  EXPECT_EQ(state(), "live");
  EXPECT_EQ(moves("pass"), 1u);
}

TEST_F(RolloutsWhereAnswersDiffer, AReloadThatWantsTheSameSendsItBack) {
  begin_with(config::OtherAnswers::look);
  hear_gate();
  auto all = fleet.snapshot()->settings;
  all.rollouts[0].answers = config::OtherAnswers::same;
  adopt(all);
  EXPECT_EQ(state(), "shadow") << "the gate is asked anew";
  tick();
  finish_slow_answers();
  tick();
  EXPECT_EQ(state(), "returned");
}

}  // namespace
}  // namespace weir::proxy::rollout
