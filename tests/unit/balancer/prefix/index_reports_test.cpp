// The index learns from reports of cached tokens: restarts, belief and capacity. Caches are simulated
// beside it, block by block.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "tests/unit/balancer/prefix/prefixes.hpp"

namespace weir::balancer::prefix_index {
namespace {

TEST_F(Prefixes, ThreeLargePredictionsOfWhichNothingComesTrueWipeTheReplica) {
  places(2);
  const std::vector<std::uint64_t> long_path(40, 7);
  for (const ReplicaIndex replica : {0u, 1u}) {
    const auto prompt = prompt_of(long_path);
    send(prompt, replica);
    for (int i = 0; i < 5; ++i)
      serve(prompt, replica, 0, {.prompt = {}, .cached = tokens_of(prompt) - 1, .output = {}});
  }
  auto path = long_path;
  for (std::uint64_t i = 0; i < 3; ++i) {
    path.push_back(i);
    EXPECT_GE(held(prompt_of(path), 0), 2500u) << "Before the third miss it is believed.";
    serve(prompt_of(path), 0, 0, {.prompt = {}, .cached = 0, .output = {}});
  }
  path.push_back(9);
  EXPECT_EQ(held(prompt_of(path), 0), 0u);
  EXPECT_GE(held(prompt_of(path), 1), 2500u) << "The other replica is not to blame.";
  EXPECT_EQ(index.of(0).sums().wipes[static_cast<std::size_t>(PrefixWipe::missed)], 1u);
  EXPECT_GT(index.of(0).believed(), 0.95) << "A restart says nothing of later predictions.";
}

/// Siblings may be computed side by side by an engine that shares nothing before the first has its token.
TEST_F(Prefixes, SiblingsOfWhichNoneHasATokenYetSayNothingOfAnEmptyCache) {
  places(1);
  const auto other = prompt_of(std::vector<std::uint64_t>(40, 9));
  serve(other, 0, 0, {.prompt = {}, .cached = 0, .output = {}});
  serve(other, 0, 0, {.prompt = {}, .cached = 2559, .output = {}});
  const auto prompt = prompt_of(std::vector<std::uint64_t>(40, 7));
  std::vector<PrefixPrediction> siblings;
  for (int i = 0; i < 8; ++i) siblings.push_back(send(prompt, 0));
  for (const auto& one : siblings) {
    index.computed(prompt, one, 0);
    index.answered(one, 0, 0, {.prompt = {}, .cached = 0, .output = {}});
  }
  EXPECT_EQ(index.of(0).sums().wipes[static_cast<std::size_t>(PrefixWipe::missed)], 0u);
  EXPECT_EQ(held(other, 0), tokens_of(other));
  EXPECT_GT(index.of(0).believed(), 0.999) << "Nor do they say that less is found than is predicted.";
}

/// A client sends what an engine finds nothing of, as often as it likes. Others' requests show whether that is the
/// cache's doing.
TEST_F(Prefixes, MissesOfOneClientWipeNothingWhileOthersFindWhatIsPredicted) {
  places(1);
  const auto common = prompt_of(std::vector<std::uint64_t>(40, 7)), own = prompt_of(std::vector<std::uint64_t>(40, 9));
  Moment now{};
  const auto answer = [&](const PromptPrefix& prompt, Client client, Tokens cached) {
    auto prediction = send(prompt, 0);
    prediction.client = client;
    index.computed(prompt, prediction, 0);
    index.answered(prediction, 0, 0, {.prompt = {}, .cached = cached, .output = {}, .at = now});
  };
  const auto wipes = [&] { return index.of(0).sums().wipes[static_cast<std::size_t>(PrefixWipe::missed)]; };
  for (const auto* const prompt : {&common, &own}) send(*prompt, 0);
  for (int round = 0; round < 100; ++round, now += std::chrono::seconds(1)) {
    for (int i = 0; i < 3; ++i) answer(common, 1, 2559);
    for (int i = 0; i < 4; ++i) answer(own, 2, 0);
  }
  EXPECT_EQ(wipes(), 0u);
  for (int i = 0; i < 20; ++i) answer(common, 1, 2559);
  for (int i = 0; i < 2; ++i) answer(own, 2, 0);
  answer(common, 1, 0);
  EXPECT_EQ(wipes(), 1u) << "what all miss is not there";
  for (const Client client : {1u, 2u}) answer(common, client, 2559);
  for (int i = 0; i < 20; ++i) answer(own, 2, 2559);
  now += std::chrono::seconds(11);
  for (int i = 0; i < 3; ++i) answer(own, 2, 0);
  EXPECT_EQ(wipes(), 2u) << "nobody else has found anything lately";
}

/// Templates drop the reasoning of earlier turns, and JSON the earlier of two members of one name.
TEST_F(Prefixes, WhatTheEngineDidNotCountIsNoMiss) {
  places(1);
  const auto prompt = prompt_of(std::vector<std::uint64_t>(40, 7));
  serve(prompt, 0, 0, {.prompt = {}, .cached = 2559, .output = {}});
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::vector<std::uint64_t> path(40, 7);
    path.insert(path.end(), {100 + i, 200 + i});
    const auto longer = prompt_of(path);
    serve(longer, 0, tokens_of(longer), {.prompt = 128, .cached = 0, .output = {}});
  }
  EXPECT_EQ(index.of(0).sums().wipes[static_cast<std::size_t>(PrefixWipe::missed)], 0u);
  EXPECT_EQ(index.of(0).believed(), 1);
}

/// Tokens that a prompt was estimated to have too many were neither held nor remembered.
TEST_F(Prefixes, APromptOfFewerTokensThanEstimatedSaysNothingOfTheCapacity) {
  places(1, 100'000);
  const std::vector<std::uint64_t> common(40, 7);
  serve(prompt_of(common), 0, 0, {.prompt = {}, .cached = 0, .output = {}});
  for (std::uint64_t i = 0; i < 20; ++i) {
    auto path = common;
    for (std::uint64_t part = 0; part < 8; ++part) path.push_back(100 * (i + 1) + part);
    const auto longer = prompt_of(path);
    const Tokens estimate = tokens_of(longer);
    serve(longer, 0, estimate, {.prompt = estimate / 5 * 4, .cached = tokens_of(prompt_of(common)) - 1, .output = {}});
  }
  EXPECT_EQ(index.of(0).holdings().capacity(), 100'000u);
}

TEST_F(Prefixes, MissesThatAreNotInARowWipeNothing) {
  places(1);
  const auto prompt = prompt_of(std::vector<std::uint64_t>(40, 7));
  send(prompt, 0);
  for (const Tokens cached : {2559u, 2559u, 0u, 0u, 2559u, 0u, 0u, 64u, 0u, 0u})
    serve(prompt, 0, 0, {.prompt = {}, .cached = cached, .output = {}});
  EXPECT_EQ(index.of(0).sums().wipes[static_cast<std::size_t>(PrefixWipe::missed)], 0u);
}

TEST_F(Prefixes, AMissOfWhatWasUsedJustNowIsNoWantOfRoom) {
  places(1, 100'000);
  const auto prompt = prompt_of(std::vector<std::uint64_t>(40, 7));
  send(prompt, 0);
  for (int i = 0; i < 20; ++i) serve(prompt, 0, 0, {.prompt = {}, .cached = 512, .output = {}});
  EXPECT_EQ(index.of(0).holdings().capacity(), 100'000u);
}

TEST_F(Prefixes, AWipeForAnotherReasonIsNoSignOfACacheThatIsOff) {
  places(1);
  const auto prompt = prompt_of(std::vector<std::uint64_t>(40, 7));
  const auto answer = [&](Tokens cached) { serve(prompt, 0, 0, {.prompt = {}, .cached = cached, .output = {}}); };
  for (const Tokens cached : {0u, 2559u, 2559u}) answer(cached);
  index.wipe(0, PrefixWipe::down);
  for (const Tokens cached : {0u, 0u, 0u, 0u}) answer(cached);
  EXPECT_EQ(index.of(0).sums().wipes[static_cast<std::size_t>(PrefixWipe::missed)], 1u);
}

TEST_F(Prefixes, ASecondRestartIsNoticedIfAnythingWasFoundMeanwhile) {
  places(1);
  const auto prompt = prompt_of(std::vector<std::uint64_t>(40, 7));
  send(prompt, 0);
  for (std::uint64_t restarts = 1; restarts <= 3; ++restarts) {
    for (const Tokens cached : {2559u, 0u, 0u, 0u, 0u})
      serve(prompt, 0, 0, {.prompt = {}, .cached = cached, .output = {}});
    EXPECT_EQ(index.of(0).sums().wipes[static_cast<std::size_t>(PrefixWipe::missed)], restarts);
  }
}

TEST_F(Prefixes, ReportsBeyondWhatWasPredictedRaiseNoBeliefAboveOne) {
  places(1);
  for (std::uint64_t i = 0; i < 50; ++i) {
    serve(prompt_of({i, 2, 3, 4}), 0, 0, {.prompt = 256, .cached = {}, .output = 64});
    serve(prompt_of({i, 2, 3, 4, 5, 6, 7, 8}), 0, 0, {.prompt = 512, .cached = 511, .output = {}});
  }
  EXPECT_EQ(answers_believed(), 1);
  EXPECT_EQ(index.of(0).believed(), 1);
}

TEST_F(Prefixes, SmallPredictionsThatFailAreNoReasonToBelieveLess) {
  places(1);
  const auto prompt = prompt_of({1, 2, 3});
  for (int i = 0; i < 50; ++i) serve(prompt, 0, 0, {.prompt = {}, .cached = 0, .output = {}});
  EXPECT_EQ(index.of(0).believed(), 1);
}

TEST_F(Prefixes, OneDeepMissIsNotEnoughToLowerTheCapacity) {
  places(1, 100'000);
  const auto lost = prompt_of(std::vector<std::uint64_t>(20, 7));
  for (const Tokens capacity : {100'000u, 90'000u}) {
    index.computed(lost, send(lost, 0), 0);
    for (std::uint64_t i = 0; i < 300; ++i) send(prompt_of({i, i, i}), 0);
    serve(lost, 0, 0, {.prompt = {}, .cached = 64, .output = {}});
    EXPECT_EQ(index.of(0).holdings().capacity(), capacity);
  }
}

TEST_F(Prefixes, ThatAreForgottenTakeNoMemory) {
  places(2);
  const auto prompt = prompt_of({1, 2, 3});
  const auto prediction = send(prompt, 0);
  index.forget_prompts();
  EXPECT_EQ(index.bytes(), 0u);
  EXPECT_EQ(index.of(0).holdings().held(), 0u);
  EXPECT_EQ(held(prompt, 0), 0u);
  index.failed(prompt, prediction, 0);
  index.answered(prediction, 0, 192, {.prompt = 192, .cached = 0, .output = 5});
  send(prompt, 1);
  EXPECT_EQ(held(prompt, 0), 0u);
  EXPECT_EQ(held(prompt, 1), 192u);
}

TEST_F(Prefixes, AReplicaThatHasASmallPromptIsNotEmpty) {
  places(1);
  const auto large = prompt_of(std::vector<std::uint64_t>(40, 7)), small = prompt_of(std::vector<std::uint64_t>(8, 9));
  send(large, 0);
  send(small, 0);
  const auto answer = [&](const PromptPrefix& prompt, Tokens cached) {
    serve(prompt, 0, 0, {.prompt = {}, .cached = cached, .output = {}});
  };
  for (int i = 0; i < 4; ++i) {
    answer(large, 0);
    answer(small, 256);
  }
  EXPECT_EQ(index.of(0).sums().wipes[static_cast<std::size_t>(PrefixWipe::missed)], 0u);
}

TEST_F(Prefixes, AHitOnWhatHadLeftRaisesTheCapacityByATwentieth) {
  places(1, 40'000);
  const auto left = prompt_of(std::vector<std::uint64_t>(20, 7));
  send(left, 0);
  for (std::uint64_t i = 0; held(left, 0) > 0; ++i) send(prompt_of({i, i, i}), 0);
  serve(left, 0, tokens_of(left), {.prompt = {}, .cached = tokens_of(left) - 1, .output = {}});
  EXPECT_EQ(index.of(0).holdings().capacity(), 42'000u);
}

TEST_F(Prefixes, AReplicaWithoutACacheIsBelievedToHaveNone) {
  places(1);
  const std::vector<std::uint64_t> path(40, 7);
  for (int i = 0; i < 60; ++i) {
    const auto prediction = send(prompt_of(path), 0);
    index.computed(prompt_of(path), prediction, 0);
    index.answered(prediction, 0, 0, {.prompt = {}, .cached = 0, .output = {}});
  }
  index.look(prompt_of(path), 2560);
  EXPECT_LE(index.cached(0, 2560), 512u);
}

/// Conversations of any size: beliefs fall for small prompts, too, and once they have fallen nothing is wiped any more.
TEST_F(Prefixes, AReplicaThatAlwaysReportsNothingCachedIsSoonBelievedNoMore) {
  for (const std::size_t parts : {17u, 25u, 40u, 200u}) {
    index = PrefixIndex();
    places(1);
    const auto prompt = prompt_of(std::vector<std::uint64_t>(parts, 7));
    const auto wipes = [&] { return index.of(0).sums().wipes[static_cast<std::size_t>(PrefixWipe::missed)]; };
    for (int i = 0; i < 60; ++i) {
      const auto prediction = send(prompt, 0);
      index.computed(prompt, prediction, 0);
      if (i >= 30) EXPECT_LE(prediction.cached, tokens_of(prompt) / 3) << parts << " parts, request " << i;
      index.answered(prediction, 0, 0, {.prompt = {}, .cached = 0, .output = {}});
    }
    EXPECT_LE(wipes(), 3u) << parts;
  }
}

TEST_F(Prefixes, AReplicaThatFindsSomethingAgainIsBelievedAgain) {
  places(1);
  const auto prompt = prompt_of(std::vector<std::uint64_t>(40, 7));
  for (int i = 0; i < 60; ++i) serve(prompt, 0, 0, {.prompt = {}, .cached = 0, .output = {}});
  for (int i = 0; i < 200; ++i) serve(prompt, 0, 0, {.prompt = {}, .cached = 2559, .output = {}});
  EXPECT_GT(index.of(0).believed(), 0.8);
}

TEST_F(Prefixes, AnAnswerTakesRoomOnce) {
  places(1);
  std::vector<std::uint64_t> path;
  Tokens real = 0;
  for (std::uint64_t turn = 0; turn < 20; ++turn) {
    if (turn > 0) path.push_back(2 * turn);  // The answer before.
    path.push_back(2 * turn + 1);
    const auto prompt = prompt_of(path);
    serve(prompt, 0, tokens_of(prompt), {.prompt = tokens_of(prompt), .cached = {}, .output = tokens_a_part});
    real = tokens_of(prompt) + tokens_a_part;
    EXPECT_EQ(index.of(0).holdings().held(), real) << "turn " << turn;
  }
}

TEST_F(Prefixes, WhatAnEngineToldTooSmallAtFirstDoesNotMultiplyWhatItTellsLater) {
  places(1, 16);
  index.place({0, 1}, 500'000);
  EXPECT_EQ(index.of(0).holdings().capacity(), 500'000u);
}

TEST_F(Prefixes, AReplicaThatReportsNothingIsBelieved) {
  places(1);
  const auto prompt = prompt_of(std::vector<std::uint64_t>(40, 7));
  for (int i = 0; i < 60; ++i) serve(prompt, 0, 0, {});
  index.look(prompt, 2560);
  EXPECT_EQ(index.cached(0, 2560), 2559u);
}

/// An engine with so many tokens of room, which forgets what was used longest ago; conversations go round and round.
/// It reports so much of what it finds.
Tokens capacity_learned(Tokens told, Tokens real, double reported = 1) {
  PrefixIndex index;
  index.place({0, 1}, told);
  std::map<std::uint64_t, std::uint64_t> used;  // When each part was used last.
  std::map<std::uint64_t, std::uint64_t> by_use;
  std::uint64_t clock = 0;
  const std::size_t room = real / tokens_a_part;
  std::mt19937_64 random(5);
  std::vector<std::vector<std::uint64_t>> conversations(400);
  for (int step = 0; step < 40'000; ++step) {
    auto& path = conversations[random() % (random() % 2 == 0 ? 40 : 400)];
    if (path.size() > 60) path.clear();
    if (path.empty()) path = {random(), random()};
    path.push_back(random());
    const auto prompt = prompt_of(path);
    Tokens cached = 0;
    for (const auto& anchor : prompt.anchors) {
      if (!used.contains(anchor.key)) break;
      cached = anchor.position / 4;
    }
    const auto prediction = index.sent(prompt, 0, tokens_of(prompt));
    index.computed(prompt, prediction, 0);
    for (auto anchor = prompt.anchors.rbegin(); anchor != prompt.anchors.rend(); ++anchor) {
      if (const auto found = used.find(anchor->key); found != used.end()) by_use.erase(found->second);
      used[anchor->key] = ++clock;
      by_use[clock] = anchor->key;
    }
    while (used.size() > room) {
      used.erase(by_use.begin()->second);
      by_use.erase(by_use.begin());
    }
    cached = static_cast<Tokens>(reported * static_cast<double>(cached));
    index.answered(prediction, 0, 0, {.prompt = tokens_of(prompt), .cached = cached, .output = {}});
  }
  return index.of(0).holdings().capacity();
}

TEST(PrefixCapacity, IsLearnedDownByMissesAndUpByHits) {
  for (const double told : {0.4, 1.0, 2.5}) {
    constexpr Tokens real = 200'000;
    const Tokens learned = capacity_learned(static_cast<Tokens>(told * real), real);
    EXPECT_GT(static_cast<double>(learned), 0.7 * real) << told;
    EXPECT_LT(static_cast<double>(learned), 1.4 * real) << told;
  }
}

/// Reports that are too low by a constant part say nothing of the room.
TEST(PrefixCapacity, IsNotLoweredByAnEngineThatReportsHalfOfWhatItFinds) {
  constexpr Tokens real = 200'000;
  EXPECT_GT(static_cast<double>(capacity_learned(real, real, 0.5)), 0.7 * real);
}

}  // namespace
}  // namespace weir::balancer::prefix_index
