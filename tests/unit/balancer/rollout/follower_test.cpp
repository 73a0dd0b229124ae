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
  const auto pool = Pool::make(config::Policy::least_queued_tokens, 1, 1);
  const metrics::compare::samples::Names names;
  const Ended nothing{names, [](Moment) { return std::vector<const metrics::compare::samples::Sample*>(); }};
  double now = 1;
  const auto tick = [&] { return follower.look(*pool, {}, nothing, nullptr, at(now += 1)); };
  const auto says = [&](bool stays_unknown) {
    follower.gate_said(follower.gate_asked(at(now)), GateResult{Gate::unknown, {}, {"answers: they differ"}, stays_unknown});
  };
  EXPECT_FALSE(tick().stays_unknown);
  says(true);
  EXPECT_TRUE(tick().stays_unknown);
  EXPECT_EQ(tick().why, "answers: they differ");
  says(false);
  EXPECT_FALSE(tick().stays_unknown);
  says(true);
  const auto question = follower.gate_asked(at(now));
  follower.ask_anew(at(now));
  EXPECT_FALSE(tick().stays_unknown);
  follower.gate_said(question, GateResult{Gate::unknown, {}, {}, true});
  EXPECT_FALSE(tick().stays_unknown) << "the answer is about another step";
}

}  // namespace
}  // namespace weir::balancer::rollout
