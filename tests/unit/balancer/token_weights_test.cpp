#include "balancer/token_weights.hpp"

#include <array>
#include <random>

#include "requests.hpp"

namespace weir::balancer {
namespace {

using metrics::wire::TextFeatures;

TextFeatures one(Script script, std::uint64_t code_points) {
  TextFeatures text;
  text.code_points[static_cast<std::size_t>(script)] = code_points;
  return text;
}

/// Returns what a code point of a script is estimated to cost.
double weight(const TokenWeights& weights, Script script) {
  return weights.of(one(script, 1)) - weights.of(TextFeatures{});
}

TEST(TokenWeights, NoReportMovesAWeightByMoreThanNinePercent) {
  std::mt19937_64 random(3);
  TokenWeights weights;
  for (int i = 0; i < 20'000; ++i) {
    TextFeatures text;
    for (std::uint64_t& n : text.code_points) n = random() % 3 == 0 ? random() % 5000 : 0;
    text.messages = static_cast<std::uint32_t>(random() % 30);
    text.tool_bytes = random() % 2 == 0 ? random() % 20'000 : 0;
    const TokenWeights before = weights;
    weights.learn(text, random() % 3 == 0 ? 1e7 : static_cast<double>(1 + random() % 10'000));
    for (std::size_t s = 0; s < metrics::wire::script_count; ++s) {
      const double was = weight(before, static_cast<Script>(s));
      const double is = weight(weights, static_cast<Script>(s));
      ASSERT_LE(std::abs(is - was), TokenWeights::most_change * was + 1e-9) << i;
      ASSERT_GE(is, 0.0199);
      ASSERT_LE(is, 4.001);
    }
    const double was = before.of(TextFeatures{});
    ASSERT_LE(std::abs(weights.of(TextFeatures{}) - was), TokenWeights::most_change * was + 1e-9);
  }
}

TEST(TokenWeights, WhatATextDoesNotHoldLearnsNothingFromIt) {
  TokenWeights weights;
  const double cjk = weight(weights, Script::cjk);
  for (int i = 0; i < 500; ++i) weights.learn(one(Script::cyrillic_greek, 2000), 600);
  EXPECT_NEAR(weight(weights, Script::cjk), cjk, 1e-9);
  EXPECT_NEAR(weight(weights, Script::cyrillic_greek), 0.3, 0.01);
}

// After a thousand answers a weight moves less with one that disagrees than it did at first, yet it does follow.
TEST(TokenWeights, WhatIsSettledHoldsStillAndStillFollowsAChange) {
  TokenWeights fresh, settled;
  for (int i = 0; i < 1000; ++i) settled.learn(one(Script::letters, 4000), 1010);
  const auto step = [](TokenWeights weights) {
    const double before = weights.of(one(Script::letters, 4000));
    weights.learn(one(Script::letters, 4000), 1200);
    return weights.of(one(Script::letters, 4000)) - before;
  };
  EXPECT_LT(step(settled), step(fresh) / 3);
  for (int i = 0; i < 60; ++i) settled.learn(one(Script::letters, 4000), 2000);
  EXPECT_NEAR(settled.of(one(Script::letters, 4000)), 2000, 60);
}

TEST(TokenWeights, WhileErrorsAreSmallOneAnswerInFourTeachesWhateverThePeriodOfTheTraffic) {
  const TextFeatures text = one(Script::letters, 4000);
  TokenWeights weights;
  for (int i = 0; i < 200; ++i) weights.learn(text, 1010);
  std::array<int, 8> taught{};
  for (std::size_t i = 0; i < 8000; ++i) {
    const double before = weights.of(text);
    weights.learn(text, i % 2 == 0 ? 1000 : 1020);
    if (weights.of(text) != before) ++taught[i % taught.size()];
  }
  for (const int of_1000 : taught) EXPECT_NEAR(of_1000, 250, 10);
}

TEST(TokenWeights, LargeErrorsMakeEachAnswerTeachAgain) {
  const TextFeatures text = one(Script::letters, 4000);
  TokenWeights weights;
  for (int i = 0; i < 1000; ++i) weights.learn(text, 1010);
  for (int i = 0; i < 16; ++i) weights.learn(text, 2000);
  for (int i = 0; i < 8; ++i) {
    const double before = weights.of(text);
    weights.learn(text, 2000);
    EXPECT_GT(weights.of(text), before) << i;
  }
}

TEST(TokenWeights, AnHeirEstimatesTheSameAndLearnsAnew) {
  TokenWeights weights;
  for (int i = 0; i < 100; ++i) weights.learn(one(Script::letters, 4000), 1500);
  TokenWeights as_prior = weights.as_prior();
  EXPECT_EQ(as_prior.answers(), 0U);
  EXPECT_DOUBLE_EQ(as_prior.of(one(Script::letters, 4000)), weights.of(one(Script::letters, 4000)));
  as_prior.learn(one(Script::letters, 4000), 900);
  weights.learn(one(Script::letters, 4000), 900);
  EXPECT_LT(as_prior.of(one(Script::letters, 4000)), weights.of(one(Script::letters, 4000)));
  EXPECT_EQ(as_prior.answers(), 1U);
}

}  // namespace
}  // namespace weir::balancer
