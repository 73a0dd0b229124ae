#include "balancer/token_weights.hpp"

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

TEST(TokenWeights, FollowAChangeOfTokenizer) {
  TokenWeights weights;
  for (int i = 0; i < 1000; ++i) weights.learn(one(Script::letters, 4000), 1010);
  EXPECT_NEAR(weights.of(one(Script::letters, 4000)), 1010, 20);
  for (int i = 0; i < 60; ++i) weights.learn(one(Script::letters, 4000), 2000);
  EXPECT_NEAR(weights.of(one(Script::letters, 4000)), 2000, 60);
}

TEST(TokenWeights, AnHeirEstimatesTheSame) {
  TokenWeights weights;
  for (int i = 0; i < 100; ++i) weights.learn(one(Script::letters, 4000), 1500);
  const TokenWeights as_prior = weights.as_prior();
  EXPECT_EQ(as_prior.answers(), 0U);
  EXPECT_DOUBLE_EQ(as_prior.of(one(Script::letters, 4000)), weights.of(one(Script::letters, 4000)));
}

}  // namespace
}  // namespace weir::balancer
