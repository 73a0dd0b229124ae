#include "balancer/rollout/follower.hpp"

#include <gtest/gtest.h>

#include "tests/unit/balancer/requests.hpp"

namespace weir::balancer::rollout {
namespace {

using metrics::compare::comparison::Gate;
using metrics::compare::samples::Sample;

config::Rollout rollout() {
  config::Rollout settings;
  settings.name = "fp8";
  settings.pool = "chat";
  settings.candidate = "new";
  settings.shadow = "mirror";
  settings.slo = "fast";
  settings.steps = {{true, 0, config::Seconds(60)}, {false, 0.5, config::Seconds(60)}, {false, 1, config::Seconds(0)}};
  return settings;
}

/// Whole conversations are drawn for a side, so their requests share a cause.
TEST(RolloutFollower, AConversationMissesTheObjectiveOnceInAStep) {
  Follower follower(rollout());
  follower.machine.start();
  follower.machine.promote();
  const auto pool = Pool::make(config::Policy::least_queued_tokens, 1);
  metrics::compare::samples::Names names;
  std::vector<Sample> came;
  const auto answer = [&](std::string_view side, std::uint64_t conversation, double ttft) {
    Sample sample;
    sample.role = metrics::Role::primary;
    sample.served = sample.stream = true;
    sample.pool = names.of("chat");
    sample.config = names.of(side);
    sample.group = conversation;
    sample.status = 200;
    sample.ttft = sample.ttft_client = static_cast<float>(ttft);
    came.push_back(sample);
  };
  const Ended ended{names, [&](Moment) {
                      std::vector<const Sample*> all;
                      for (const Sample& sample : came) all.push_back(&sample);
                      return all;
                    }};
  config::Slo slo;
  slo.ttft = config::Seconds(1);
  double now = 1;
  const auto misses = [&] {
    const Counts counts = follower.look(*pool, {}, ended, &slo, at(now += 1)).misses;
    came.clear();
    return counts;
  };
  answer("new", 7, 0.5);
  answer("new", 7, 2);
  answer("new", 7, 3);
  answer("old", 8, 2);
  answer("old", 9, 0.5);
  EXPECT_EQ(misses(), (Counts{1, 1, 2, 1}));
  answer("new", 7, 4);
  answer("old", 9, 2);
  EXPECT_EQ(misses(), (Counts{0, 0, 0, 1})) << "conversation 7 missed before";
  answer("new", 0, 2);
  answer("new", 0, 2);
  EXPECT_EQ(misses(), (Counts{2, 2, 0, 0})) << "requests of no known conversation count alone";
  follower.moved(Reason::promote, pool->split(), at(now));
  answer("new", 7, 4);
  EXPECT_EQ(misses(), (Counts{1, 1, 0, 0})) << "another step begins anew";
}

TEST(RolloutFollower, PassesOnThatTheGateStaysUnknownUntilAnotherStepOrGateIsAsked) {
  Follower follower(rollout());
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
