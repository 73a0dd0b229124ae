#include "config/rollouts.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "load_text.hpp"

namespace weir::config {
namespace {

const std::string named = "name = 'r'\npool = 'chat'\ncandidate = 'new'\n";

Rollout rollout(const std::string& lines) { return settings_in(old_and_new + "[[rollout]]\n" + lines).rollouts.at(0); }

std::string steps_of(const Rollout& rollout) {
  std::string text;
  for (const auto& step : rollout.steps) text += (text.empty() ? "" : ", ") + to_text(step);
  return text;
}

TEST(RolloutSettings, HaveTheUsualStepsWithAndWithoutAShadow) {
  EXPECT_EQ(steps_of(rollout(named)), "1% 10m, 5% 10m, 25% 20m, 50% 20m, 100%");
  EXPECT_EQ(steps_of(rollout(named + "shadow = 'fp8'\n")), "shadow 20m, 1% 10m, 5% 10m, 25% 20m, 50% 20m, 100%");
  EXPECT_EQ(rollout(named).answers, OtherAnswers::look);
  EXPECT_EQ(rollout(named + std::string("answers = 'any'\n")).answers, OtherAnswers::any);
}

TEST(RolloutSettings, TakeTheFirstObjectiveOfThePool) {
  EXPECT_EQ(rollout(named).slo, "fast");
  auto other = settings_in(
      "[admin]\nstate = 's'\n" +
      old_and_new.substr(old_and_new.find("[[pool]]"), old_and_new.find("[[slo]]") - old_and_new.find("[[pool]]")) +
      "[[rollout]]\n" + named);
  EXPECT_EQ(other.rollouts.at(0).slo, "") << "the pool has none";
}

/// Shares are written as they are read, though 7 % times 100 is no whole number in binary.
TEST(RolloutSettings, StepsAreWrittenAsTheyAreRead) {
  for (int tenths = 1; tenths < 1000; ++tenths) {
    const auto share = std::to_string(tenths / 10) + (tenths % 10 ? "." + std::to_string(tenths % 10) : "") + '%';
    const auto read = rollout(named + "steps = ['" + share + " 1500ms', '100%']\n");
    EXPECT_EQ(steps_of(read), share + " 1500ms, 100%");
    EXPECT_NEAR(read.steps[0].share, tenths / 1000.0, 1e-12);
  }
}

}  // namespace
}  // namespace weir::config
