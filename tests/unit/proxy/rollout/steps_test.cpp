// The steps of a rollout: what an operator asks for, what the pool gets, and what a reload changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "tests/unit/proxy/rollout/rollouts_of_a_fleet.hpp"

namespace weir::proxy::rollout {
namespace {

using ::testing::HasSubstr;

TEST_F(RolloutsOfAFleet, ThePoolGetsTheShareOfTheStep) {
  EXPECT_EQ(share(), 0) << "the fleet itself closes the candidate";
  begin();
  EXPECT_EQ(share(), 0);
  EXPECT_EQ(ask(Wish::promote), 409u);
  EXPECT_EQ(ask(Wish::start), 200u);
  EXPECT_EQ(share(), 0.05);
  EXPECT_EQ(ask(Wish::start), 409u);
  EXPECT_EQ(ask(Wish::promote), 200u);
  EXPECT_EQ(share(), 0.5);
  EXPECT_EQ(ask(Wish::pause), 200u);
  EXPECT_EQ(share(), 0.5);
  EXPECT_EQ(ask(Wish::abort), 200u);
  EXPECT_EQ(share(), 0);
  EXPECT_EQ(rollouts->carry_out("fp9", Wish::start, now, "").status, 404u);
}

TEST_F(RolloutsOfAFleet, ReloadsKeepItEndItOrBeginAnother) {
  begin();
  ask(Wish::start);
  auto other = settings();
  other.limits.connect = config::Seconds(3);
  adopt(other);
  EXPECT_EQ(share(), 0.05);
  other.rollouts[0].candidate = "old";
  adopt(other);
  EXPECT_EQ(share(), 0);
  EXPECT_EQ(state(), "idle");
  EXPECT_EQ(moves("settings"), 1u);
  other.rollouts.clear();
  adopt(other);
  EXPECT_EQ(share(), std::nullopt);
  EXPECT_TRUE(rollouts->gauges().empty());
  EXPECT_TRUE(read_rollouts(path).rollouts.empty());
  adopt(settings());
  EXPECT_EQ(share(), 0) << "what was forgotten does not come back";
  EXPECT_EQ(state(), "idle");
}

TEST_F(RolloutsOfAFleet, APromotionThatNamesWhereItStandsIsDoneOnce) {
  begin();
  ask(Wish::start);
  const auto promote = [&](std::string_view body) { return answer_to(Wish::promote, body); };
  for (int i = 0; i < 8; ++i) EXPECT_EQ(promote(R"({"from":"5%"})").status, i == 0 ? 200u : 409u);
  EXPECT_EQ(share(), 0.5);
  EXPECT_THAT(promote(R"({"from":"5%"})").body, HasSubstr("the rollout 'fp8' stands at 50%, and not at 5%"));
  EXPECT_THAT(promote(R"({"to":"25%"})").body, HasSubstr("has no step 25%; its steps are 5%, 50%, 100%"));
  EXPECT_EQ(promote(R"({"to":"50%"})").status, 409u);
  for (const auto* wrong : {"[]", "{\"from\":5}", "{\"step\":\"5%\"}", "x"})
    EXPECT_EQ(promote(wrong).status, 400u) << wrong;
  EXPECT_EQ(share(), 0.5);
  EXPECT_EQ(promote(R"({"from":"50% 1m","to":"100%"})").status, 200u) << "or as the list has it";
  EXPECT_EQ(share(), 1);
  ask(Wish::abort);
  ask(Wish::start);
  EXPECT_EQ(promote(R"({"to":"100%"})").status, 200u) << "a step may be left out";
  EXPECT_EQ(share(), 1);
}

TEST_F(RolloutsOfAFleet, TheShadowOfAnEndedRolloutIsTheOperators) {
  auto mirrored = mirrored_settings();
  fleet.adopt(mirrored);
  begin();
  const auto is_on = [&] { return fleet.snapshot()->shadows.at(0)->state->on.load(); };
  ask(Wish::start);
  EXPECT_TRUE(is_on());
  adopt(mirrored);
  EXPECT_TRUE(is_on()) << "the shadow step goes on";
  ask(Wish::promote);
  EXPECT_FALSE(is_on());
  ask(Wish::abort);
  EXPECT_FALSE(is_on());
  fleet.snapshot()->shadows[0]->state->on = true;
  mirrored.limits.connect = config::Seconds(3);
  adopt(mirrored);
  EXPECT_TRUE(is_on()) << "an operator switched it on";
  mirrored.pools[0].replicas[0].url.port = 9;
  adopt(mirrored);
  EXPECT_TRUE(is_on()) << "beside another primary it begins anew, as it was";
  fleet.snapshot()->shadows[0]->state->on = false;
  mirrored.shadows[0].replicas[0].url.port = 9;
  adopt(mirrored);
  EXPECT_FALSE(is_on()) << "elsewhere it begins anew, as it was";
  ask(Wish::start);
  ask(Wish::promote);
  EXPECT_FALSE(is_on());
}

TEST_F(RolloutsOfAFleet, TheControlBesideItsShadowIsSwitchedOnWithItAndNeverOff) {
  auto mirrored = mirrored_settings();
  config::Shadow control = mirrored.shadows[0];
  control.name = control.replicas[0].name = "control";
  control.control = true;
  mirrored.shadows.push_back(control);
  fleet.adopt(mirrored);
  const auto is_on = [&](std::size_t shadow) -> auto& { return fleet.snapshot()->shadows.at(shadow)->state->on; };
  is_on(1) = false;
  begin();
  EXPECT_FALSE(is_on(1));
  ask(Wish::start);
  EXPECT_TRUE(is_on(0));
  EXPECT_TRUE(is_on(1));
  ask(Wish::promote);
  EXPECT_FALSE(is_on(0));
  EXPECT_TRUE(is_on(1)) << "the control may be another shadow's too";
  ask(Wish::abort);
  is_on(1) = false;
  ask(Wish::start);
  EXPECT_TRUE(is_on(1));
  is_on(1) = false;
  ask(Wish::promote);
  EXPECT_FALSE(is_on(1)) << "an operator switched it off";
}

TEST_F(RolloutsOfAFleet, WhereAnswersMayDifferAStepEndsWhoseGatePassesButForThem) {
  auto mirrored = mirrored_settings();
  mirrored.rollouts[0].answers = config::OtherAnswers::any;
  fleet.adopt(mirrored);
  begin();
  ask(Wish::start);
  fleet.snapshot()->shadows[0]->state->began = now;
  for (int i = 0; i < 22 * 60 * 8; ++i) {
    now += std::chrono::milliseconds(125);
    end_pair("stop", i % 240 == 0 ? "tool_calls" : "stop");
  }
  history.take(finished, now + std::chrono::milliseconds(1));
  tick();
  finish_slow_answers();
  EXPECT_THAT(rollouts->list().body, HasSubstr("\"why\":\"answers: they differ, which does not count\""));
  for (int i = 0; i < 60; ++i) tick();
  EXPECT_EQ(state(), "live");
  EXPECT_EQ(moves("pass"), 1u);
  EXPECT_THAT(rollouts->list().body, HasSubstr("the gate passed but for the answers, which may differ, after "));
}

TEST_F(RolloutsOfAFleet, OnlyAStepUnderWayHasAGateToAsk) {
  begin();
  ask(Wish::start);
  EXPECT_THAT(rollouts->list().body, HasSubstr("no comparison of this step has been made yet"));
  for (const auto wish : {Wish::promote, Wish::promote, Wish::abort}) ask(wish);
  EXPECT_THAT(rollouts->list().body, HasSubstr("\"gate\":{\"word\":\"unknown\",\"why\":\"\"}"));
}

TEST_F(RolloutsOfAFleet, AReloadAsksTheGateAnew) {
  auto other = settings();
  other.rollouts[0].unknown_limit = config::Seconds(1e6);
  fleet.adopt(other);
  begin();
  ask(Wish::start);
  for (int i = 0; i < 90; ++i) tick();
  finish_slow_answers();
  EXPECT_THAT(rollouts->list().body, testing::Not(HasSubstr("no comparison of this step has been made yet")));
  adopt(other);
  EXPECT_THAT(rollouts->list().body, HasSubstr("no comparison of this step has been made yet"));
  tick();
  finish_slow_answers();
  EXPECT_THAT(rollouts->list().body, testing::Not(HasSubstr("no comparison of this step has been made yet")))
      << "at once, not after five seconds";
}

}  // namespace
}  // namespace weir::proxy::rollout
