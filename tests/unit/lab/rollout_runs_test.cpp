// Whole rollouts in simulated time: a small part of what tests/bench/rollouts.cpp shows with a hundred of each
// candidate. It is deterministic by seed.
#include <gtest/gtest.h>

#include "tests/bench/rollout_simulation.hpp"

namespace weir::bench {
namespace {

constexpr double longest = 2.5 * 3600;

RolloutEnded rolled(const Candidate& candidate, std::uint64_t seed, bool shadow = true) {
  RolloutOptions options;
  options.gate_every = 60;
  options.longest = longest;
  options.shadow = shadow;
  static const RolloutTraffic traffic(read_trace_file(WEIR_TEST_DATA "/traces/conv.csv"),
                                      static_cast<std::size_t>(longest * RolloutOptions().rate) + 100, 1);
  return RolloutRun(traffic, candidate, options, seed).run();
}

void expect_returned(const RolloutEnded& ended, rollout::Reason reason) {
  EXPECT_EQ(name_of(ended.state), "returned") << ended.why;
  EXPECT_EQ(name_of(ended.reason), name_of(reason)) << ended.why;
  EXPECT_EQ(ended.after, 0u);
}

TEST(Rollouts, ACandidateThatFailsGoesBackBeforeAClientHasMetIt) {
  const auto ended = rolled({.fails = 0.01}, 1);
  expect_returned(ended, rollout::Reason::worse);
  EXPECT_EQ(ended.step, "shadow");
  EXPECT_LT(ended.hours, 0.5);
  EXPECT_GT(ended.requests, 1000u);
  EXPECT_EQ(ended.candidates, 0u);
  EXPECT_EQ(ended.harmed, 0u);
}

TEST(Rollouts, WithoutAShadowItsFailuresAreMadeGood) {
  const auto ended = rolled({.fails = 0.3}, 2, false);
  expect_returned(ended, rollout::Reason::failures);
  EXPECT_LT(ended.hours, 0.5);
  EXPECT_GT(ended.candidates, 0u);
  EXPECT_LT(static_cast<double>(ended.candidates) - ended.due, 0.01 * static_cast<double>(ended.requests));
  EXPECT_EQ(ended.harmed, 0u);
}

TEST(Rollouts, ACandidateThatIsSlowerGoesBack) {
  const auto ended = rolled({.step = 1.1}, 3);
  expect_returned(ended, rollout::Reason::worse);
  EXPECT_EQ(ended.step, "shadow");
  EXPECT_EQ(ended.candidates, 0u);
}

TEST(Rollouts, ACandidateThatFreezesGoesBack) {
  const auto ended = rolled({.freeze_s = 3}, 4);
  expect_returned(ended, rollout::Reason::worse);
}

TEST(Rollouts, OtherAnswersReachNoClient) {
  const auto ended = rolled({.leaves = 5}, 5);
  EXPECT_EQ(name_of(ended.state), "paused");
  EXPECT_NE(ended.why.find("answers: they differ"), std::string::npos) << ended.why;
  EXPECT_EQ(ended.candidates, 0u);
}

TEST(Rollouts, ACandidateThatDiesGoesBackInSeconds) {
  for (const auto death : {Death::refuses, Death::hangs}) {
    const auto ended = rolled({.dies = death, .dies_within = 500}, 6, false);
    expect_returned(ended, rollout::Reason::out);
    EXPECT_LT(ended.noticed_s, death == Death::refuses ? 7 : 40)
        << "with the next request or probe, of which one is due in 5 s";
    EXPECT_LE(ended.harmed, 3u) << "at most those whose answer had begun";
  }
}

}  // namespace
}  // namespace weir::bench
