#include "balancer/replica_time.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "tests/unit/balancer/requests.hpp"

namespace weir::balancer {
namespace {

/// An engine whose step times are known, and the answers that it would give.
struct KnownEngine {
  TimeModel truth{.step = 0.018, .sequence = 0.0001, .context = 95e-9, .token = 105e-6, .first_steps = 1.5};
  double slower = 1;
  std::mt19937_64 random{1};

  double between(double least, double most) { return std::uniform_real_distribution(least, most)(random); }
  ReplicaTime::Decoded decoded() {
    ReplicaTime::Decoded answer;
    answer.tokens = 50 + random() % 400;
    answer.sequences = between(1, 40);
    answer.context = answer.sequences * between(300, 1500);
    answer.prompt_tokens = between(0, 5000);
    answer.seconds = slower * between(0.97, 1.03) *
                     (static_cast<double>(answer.tokens) * truth.step_of(answer.sequences, answer.context) +
                      truth.token * answer.prompt_tokens);
    return answer;
  }
  ReplicaTime::Began began() {
    ReplicaTime::Began first;
    first.sequences = between(0, 40);
    first.context = first.sequences * 900;
    first.ahead = between(0, 2000);
    first.own = first.own_believed = between(50, 4000);
    const double step = truth.step_of(first.sequences, first.context);
    first.seconds =
        slower * between(0.9, 1.1) * (truth.first_steps * step + truth.token * (first.ahead + first.own));
    return first;
  }
  void serve(ReplicaTime& time, int answers, double& now) {
    for (int i = 0; i < answers; ++i) {
      now += 0.5;
      time.began(began(), at(now));
      time.decoded(decoded(), at(now));
    }
  }
};

TEST(ReplicaTime, LearnsAStepAndAPromptTokenFromAnswers) {
  ReplicaTime time(std::make_shared<StepTimes>());
  EXPECT_FALSE(time.knows_prompts());
  KnownEngine engine;
  double now = 1;
  engine.serve(time, 200, now);
  EXPECT_TRUE(time.knows_prompts());
  const TimeModel learned = time.model(at(now));
  for (const auto& [sequences, context] : {std::pair(1., 500.), std::pair(16., 14'000.), std::pair(40., 36'000.)})
    EXPECT_NEAR(learned.step_of(sequences, context) / engine.truth.step_of(sequences, context), 1, 0.05) << sequences;
  EXPECT_NEAR(learned.token / engine.truth.token, 1, 0.05);
  EXPECT_NEAR(learned.first_steps, engine.truth.first_steps, 0.3);
}

/// What an engine needs is no matter of scale: tiny models on a CPU and large ones on many GPUs.
TEST(ReplicaTime, LearnsEnginesOfAnySpeed) {
  for (const double speed : {0.01, 1.0, 100.0}) {
    ReplicaTime time(std::make_shared<StepTimes>());
    KnownEngine engine;
    engine.truth.step *= speed, engine.truth.sequence *= speed, engine.truth.context *= speed;
    engine.truth.token *= speed;
    double now = 1;
    engine.serve(time, 60, now);
    const TimeModel learned = time.model(at(now));
    EXPECT_NEAR(learned.step_of(16, 14'000) / engine.truth.step_of(16, 14'000), 1, 0.1) << speed;
    EXPECT_NEAR(learned.token / engine.truth.token, 1, 0.1) << speed;
  }
}

TEST(ReplicaTime, OneThatIsTwiceAsSlowAsItsPeersIsKnownAfterAFewAnswers) {
  const auto steps = std::make_shared<StepTimes>();
  ReplicaTime fast(steps), slow(steps);
  KnownEngine engine;
  double now = 1;
  engine.serve(fast, 100, now);
  engine.slower = 2;
  engine.serve(slow, 8, now);
  const TimeModel one = fast.model(at(now)), other = slow.model(at(now));
  EXPECT_NEAR(other.step_of(16, 14'000) / one.step_of(16, 14'000), 2, 0.25);
  EXPECT_GT(other.token / one.token, 1.5);
  EXPECT_LT(other.token / one.token, 2.3);
}

TEST(ReplicaTime, EqualReplicasAreTakenForEqual) {
  const auto steps = std::make_shared<StepTimes>();
  ReplicaTime one(steps), other(steps);
  KnownEngine engine;
  double now = 1;
  for (int i = 0; i < 50; ++i) {
    engine.serve(one, 1, now);
    engine.serve(other, 1, now);
  }
  EXPECT_NEAR(one.model(at(now)).step / other.model(at(now)).step, 1, 0.05);
}

TEST(ReplicaTime, AChangeOfSpeedIsFollowedBothWays) {
  const auto steps = std::make_shared<StepTimes>();
  ReplicaTime time(steps), peer(steps);
  KnownEngine engine;
  double now = 1;
  for (int i = 0; i < 50; ++i) {
    engine.serve(time, 1, now);
    engine.serve(peer, 1, now);
  }
  const double before = time.model(at(now)).token;
  engine.slower = 4;
  engine.serve(time, 6, now);
  EXPECT_GT(time.model(at(now)).token, 2.5 * before);
  engine.slower = 1;
  engine.serve(time, 6, now);
  EXPECT_LT(time.model(at(now)).token, 1.4 * before);
}

/// One answer while an engine compiles says little.
TEST(ReplicaTime, OneAnswerOutOfTheOrdinaryIsSoonForgotten) {
  ReplicaTime time(std::make_shared<StepTimes>());
  KnownEngine engine;
  double now = 1;
  engine.serve(time, 60, now);
  const double before = time.model(at(now)).token;
  auto late = engine.began();
  late.seconds *= 40;
  time.began(late, at(now));
  EXPECT_LT(time.model(at(now)).token, 2.5 * before);
  engine.serve(time, 4, now);
  EXPECT_NEAR(time.model(at(now)).token / before, 1, 0.25);
}

TEST(ReplicaTime, WhatNothingTestsIsForgotten) {
  const auto steps = std::make_shared<StepTimes>();
  ReplicaTime fast(steps), slow(steps);
  KnownEngine engine;
  double now = 1;
  engine.serve(fast, 50, now);
  engine.slower = 160;
  engine.serve(slow, 3, now);
  EXPECT_GT(slow.model(at(now)).token, 8 * fast.model(at(now)).token);
  EXPECT_LT(slow.model(at(now + 300)).token, 1.5 * fast.model(at(now)).token);
}

/// A configuration that no answer has tested, or none for minutes, is no slower and no faster than its pool: neither
/// would be tried again.
TEST(ReplicaTime, AConfigurationThatNothingTestsIsTakenForOneLikeItsPool) {
  const auto pool = std::make_shared<StepTimes>();
  const auto steps = std::make_shared<StepTimes>(pool), others = std::make_shared<StepTimes>(pool);
  ReplicaTime used(steps), unused(others);
  KnownEngine engine;
  std::mt19937_64 random(5);
  std::exponential_distribution<double> late(2);
  double now = 1;
  const auto serve = [&](ReplicaTime& time, int answers, double slower) {
    for (int i = 0; i < answers; ++i) {
      now += 0.5;
      auto first = engine.began();
      first.seconds *= slower * (1 + late(random));
      time.began(first, at(now));
      auto answer = engine.decoded();
      answer.seconds *= slower * (1 + late(random));
      time.decoded(answer, at(now));
    }
  };
  const auto step_ratio = [&] {
    return unused.model(at(now)).step_of(16, 14'000) / used.model(at(now)).step_of(16, 14'000);
  };
  const auto prompt_of = [&](const TimeModel& one) { return one.first_steps * one.step + one.token * 1000; };
  const auto prompt_ratio = [&] { return prompt_of(unused.model(at(now))) / prompt_of(used.model(at(now))); };
  for (const int answers : {20, 200}) {
    serve(used, answers, 1);
    EXPECT_NEAR(step_ratio(), 1, 0.1);
    EXPECT_NEAR(prompt_ratio(), 1, 0.1);
  }
  serve(unused, 30, 5);
  EXPECT_GT(step_ratio(), 3);
  EXPECT_GT(prompt_ratio(), 2.5);
  serve(used, 600, 1);
  EXPECT_NEAR(step_ratio(), 1, 0.1);
  EXPECT_NEAR(prompt_ratio(), 1, 0.15);
}

/// Hours of answers whose times vary: the times of all and the factors of each stay what they are, and a replica that
/// becomes slow is seen at the end as at the beginning.
TEST(ReplicaTime, NothingDriftsOverHours) {
  for (const double noise : {0.1, 0.3}) {
    const auto steps = std::make_shared<StepTimes>(std::make_shared<StepTimes>());
    std::vector<ReplicaTime> replicas(4, ReplicaTime(steps));
    KnownEngine engine;
    std::mt19937_64 random(3);
    std::normal_distribution<double> normal;
    double now = 1;
    const auto serve = [&](std::size_t which, double slower) {
      now += 0.05;
      auto first = engine.began();
      first.seconds *= slower * std::exp(2 * noise * normal(random));
      replicas[which].began(first, at(now));
      auto answer = engine.decoded();
      answer.seconds *= slower * std::exp(noise * normal(random));
      replicas[which].decoded(answer, at(now));
    };
    for (int i = 0; i < 40'000; ++i) serve(random() % 4, 1);
    const TimeModel learned = replicas[0].model(at(now));
    EXPECT_NEAR(learned.step_of(16, 14'000) / engine.truth.step_of(16, 14'000), 1, 0.3) << noise;
    EXPECT_NEAR(learned.first_steps * learned.step / (1.5 * engine.truth.step), 1, 0.6) << noise;
    EXPECT_NEAR(learned.token / engine.truth.token, 1, 0.5) << noise;
    EXPECT_LT(std::abs(steps->usual_output), 0.5) << noise;
    EXPECT_LT(std::abs(steps->usual_prompts), 0.7) << noise;
    for (int i = 0; i < 60; ++i) serve(static_cast<std::size_t>(i % 4), i % 4 == 3 ? 3 : 1);
    const TimeModel slow = replicas[3].model(at(now)), fast = replicas[0].model(at(now));
    EXPECT_GT(slow.step / fast.step, 1.7) << noise;
    EXPECT_GT(slow.token / fast.token, 1.4) << noise;
  }
}

/// A parser that holds back a tool call sends hundreds of tokens at once. Their times say nothing of the engine's steps.
TEST(ReplicaTime, TokensThatComeAtOnceTeachNoStep) {
  ReplicaTime time(std::make_shared<StepTimes>());
  KnownEngine engine;
  double now = 1;
  engine.serve(time, 300, now);
  const double before = time.model(at(now)).step_of(16, 14'000);
  for (int i = 0; i < 100; ++i) {
    if (i % 20 == 0) time.decoded({.tokens = 400, .seconds = 1e-4}, at(now));
    if (i % 20 == 1) time.decoded({.tokens = 2, .seconds = 6e-5}, at(now));
    engine.serve(time, 1, now);
  }
  EXPECT_NEAR(time.model(at(now)).step_of(16, 14'000) / before, 1, 0.2);
}

/// Nor do the first answers of all, of which nothing else is known.
TEST(ReplicaTime, TokensThatComeAtOnceTeachNoStepAtFirstEither) {
  const auto pool = std::make_shared<StepTimes>();
  ReplicaTime time(std::make_shared<StepTimes>(pool)), unused(std::make_shared<StepTimes>(pool));
  KnownEngine engine;
  double now = 1;
  for (int i = 0; i < 3; ++i) time.decoded({.tokens = 400, .seconds = 1e-4}, at(now));
  engine.serve(time, 30, now);
  const double truth = engine.truth.step_of(16, 14'000);
  EXPECT_NEAR(time.model(at(now)).step_of(16, 14'000) / truth, 1, 0.1);
  EXPECT_NEAR(unused.model(at(now)).step_of(16, 14'000) / truth, 1, 0.1);
  for (int i = 0; i < 6; ++i) time.decoded({.tokens = 400, .seconds = 0.05}, at(now));
  EXPECT_GT(time.model(at(now)).step_of(16, 14'000) / truth, 0.4) << "six tool calls, one after the other";
}

/// Prompts that grow dearer with their length leave no time for steps, and a prompt may be found whole.
TEST(ReplicaTime, APromptThatIsFoundWholeTeachesNoNonsense) {
  const auto pool = std::make_shared<StepTimes>();
  ReplicaTime time(std::make_shared<StepTimes>(pool));
  for (int i = 0; i < 200; ++i) {
    const double tokens = i % 2 == 0 ? 2'000 : 16'000;
    time.began({.seconds = i % 2 == 0 ? 0.1 : 3.2, .own_believed = tokens, .own = tokens}, at(i));
  }
  for (int i = 0; i < 10; ++i) time.began({.seconds = 0.01, .own_believed = 500, .own = 0}, at(200 + i));
  EXPECT_TRUE(std::isfinite(pool->usual_prompts));
  const TimeModel model = time.model(at(210));
  EXPECT_GT(model.token, 0);
  EXPECT_TRUE(std::isfinite(model.token) && std::isfinite(model.first_steps));
}

/// Answers of a few tokens teach no step, and first tokens that come at once are far below a usual engine's.
TEST(ReplicaTime, AConfigurationThatIsUnknownIsLikeItsPoolWhereStepsAreUnknown) {
  const auto pool = std::make_shared<StepTimes>();
  ReplicaTime used(std::make_shared<StepTimes>(pool)), unused(std::make_shared<StepTimes>(pool));
  for (int i = 0; i < 40; ++i) {
    used.began({.seconds = 0.0002, .own_believed = 30, .own = 30}, at(i));
    used.decoded({.tokens = 4, .seconds = 0.0001}, at(i));
  }
  const auto first_token = [](const TimeModel& one) { return one.first_steps * one.step + one.token * 30; };
  EXPECT_NEAR(first_token(unused.model(at(40))), first_token(used.model(at(40))), 0.0001);
  EXPECT_LT(first_token(used.model(at(40))), 0.001);
}

/// A factor of all goes as far as it has to, though no answer moves it by more than a surprise.
TEST(ReplicaTime, AFactorOfAllFollowsHoweverFarItIs) {
  StepTimes steps;
  double usual = 0;
  for (int i = 0; i < 400; ++i) steps.note_usual(usual, 0.001);
  EXPECT_NEAR(usual, std::log(0.001), 0.1);
}

/// Whatever is told, times are finite and above 0.
TEST(ReplicaTime, NoAnswerMakesNonsense) {
  std::mt19937_64 random(7);
  const double values[] = {0, 1e-9, 1e-3, 1, 40, 1e6};
  const auto any = [&] { return values[random() % std::size(values)]; };
  const auto pool = std::make_shared<StepTimes>();
  ReplicaTime time(std::make_shared<StepTimes>(pool)), peer(std::make_shared<StepTimes>(pool));
  for (int i = 0; i < 5000; ++i) {
    const Moment now = at(any());
    if (random() % 2) {
      time.began({any(), any(), any(), any(), any(), any()}, now);
    } else {
      time.decoded({random() % 1000, any(), any(), any(), any()}, now);
    }
    const TimeModel model = i % 2 == 0 ? time.model(now) : peer.model(now);
    for (const double one : {model.step, model.sequence, model.context, model.token, model.first_steps})
      ASSERT_TRUE(std::isfinite(one) && one >= 0) << i;
    ASSERT_GT(model.step, 0) << i;
  }
}

TEST(FadingSum, IsThatOfTheLastTwentySeconds) {
  FadingSum sum;
  for (int i = 0; i < 1000; ++i) sum.add(0.05, at(1 + 0.1 * i));
  EXPECT_NEAR(sum.at(at(101)), 0.5 * FadingSum::memory, 0.4);
  EXPECT_LT(sum.at(at(201)), 0.2);
}

}  // namespace
}  // namespace weir::balancer
