#include "balancer/rollout/follower.hpp"

#include <gtest/gtest.h>

#include "tests/unit/balancer/requests.hpp"

namespace weir::balancer::rollout {
namespace {

using metrics::compare::comparison::Gate;
using metrics::compare::comparison::GateResult;

TEST(RolloutFollower, PassesOnThatTheGateStaysUnknownUntilAnotherStepOrGateIsAsked) {
  config::Rollout settings;
  settings.name = "fp8";
  settings.pool = "chat";
  settings.candidate = "new";
  settings.shadow = "mirror";
  settings.steps = {{true, 0, config::Seconds(60)}, {false, 1, config::Seconds(0)}};
  Follower follower(settings);
  follower.machine.start();
  const auto pool = Pool::make(config::Policy::least_queued_tokens, 1);
  const metrics::compare::samples::Names names;
  const Ended nothing{names, [](Moment) { return std::vector<const metrics::compare::samples::Sample*>(); }};
  double now = 1;
  const auto tick = [&] { return follower.look(*pool, {}, nothing, nullptr, at(now += 1)); };
  const std::string differ = "answers: they differ";
  const auto says = [&](const std::string& answers, Gate but_for_answers) {
    follower.gate_said(follower.gate_asked(at(now)), {Gate::unknown, {}, {differ}, answers, but_for_answers});
  };
  const auto expect = [&](const std::string& answers, bool passes) {
    const auto told = tick();
    EXPECT_EQ(told.answers, answers);
    EXPECT_EQ(told.passes_but_for_answers, passes);
  };
  expect("", false);
  says(differ, Gate::unknown);
  expect(differ, false);
  EXPECT_EQ(tick().why, differ);
  says(differ, Gate::pass);
  expect(differ, true);
  says("", Gate::unknown);
  expect("", false);
  says(differ, Gate::pass);
  const auto question = follower.gate_asked(at(now));
  follower.ask_anew(at(now));
  expect("", false);
  follower.gate_said(question, {Gate::unknown, {}, {}, differ, Gate::pass});
  expect("", false);
}

}  // namespace
}  // namespace weir::balancer::rollout
