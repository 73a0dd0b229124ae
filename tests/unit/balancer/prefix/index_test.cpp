// The index against caches that are simulated beside it, block by block.
#include "balancer/prefix/index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace weir::balancer {
namespace {

using metrics::wire::PromptPrefix;

constexpr Tokens tokens_a_part = 64;

/// A prompt is a path in a tree: each part's key depends on all before it. Positions are bytes, four a token.
PromptPrefix prompt_of(const std::vector<std::uint64_t>& parts) {
  PromptPrefix prefix;
  std::uint64_t key = 0x9e3779b97f4a7c15u, position = 0;
  for (const std::uint64_t part : parts) {
    key = (key ^ part) * 0xff51afd7ed558ccdu;
    key ^= key >> 32;
    prefix.anchors.push_back({key | 1, position += 4 * tokens_a_part});
  }
  return prefix;
}
Tokens tokens_of(const PromptPrefix& prefix) { return prefix.length() / 4; }

class Prefixes : public ::testing::Test {
 protected:
  void places(std::size_t replicas, Tokens capacity = 1'000'000) {
    for (ReplicaIndex i = 0; i < replicas; ++i) index.place({i, i + 1u}, capacity);
  }
  PrefixPrediction send(const PromptPrefix& prefix, ReplicaIndex replica) {
    return index.sent(prefix, replica, tokens_of(prefix));
  }
  Tokens held(const PromptPrefix& prefix, ReplicaIndex replica) {
    index.look(prefix, tokens_of(prefix));
    return index.found(replica).held;
  }
  /// The replica answers a prompt that is sent to it.
  void serve(const PromptPrefix& prefix, ReplicaIndex replica, Tokens estimate, const PrefixReport& report) {
    const auto prediction = send(prefix, replica);
    index.computed(prefix, prediction, replica);
    index.answered(prediction, replica, estimate, report);
  }
  PrefixIndex index;
};

TEST_F(Prefixes, KnowNothingAtFirst) {
  places(4);
  const auto prompt = prompt_of({1, 2, 3});
  EXPECT_EQ(held(prompt, 0), 0u);
  EXPECT_EQ(index.cached(0, tokens_of(prompt)), 0u);
  EXPECT_EQ(index.bytes(), 0u) << "No table is made before the first prompt.";
}

TEST_F(Prefixes, ATurnIsFoundInTheNextOnItsReplicaAlone) {
  places(4);
  send(prompt_of({1, 2, 3}), 2);
  const auto next = prompt_of({1, 2, 3, 4});
  EXPECT_EQ(held(next, 2), 3 * tokens_a_part);
  EXPECT_EQ(held(next, 1), 0u);
  EXPECT_EQ(held(prompt_of({1, 2, 9}), 2), 2 * tokens_a_part);
  EXPECT_EQ(held(prompt_of({9, 2, 3}), 2), 0u);
  index.look(next, tokens_of(next));
  EXPECT_EQ(index.cached(2, tokens_of(next)), 3 * tokens_a_part);
}

TEST_F(Prefixes, TheLastTokenIsAlwaysComputed) {
  places(1);
  const auto prompt = prompt_of({1, 2, 3});
  send(prompt, 0);
  index.look(prompt, tokens_of(prompt));
  EXPECT_EQ(index.cached(0, tokens_of(prompt)), tokens_of(prompt) - 1);
}

/// A replica holds what it has computed, and what is under way there, however many prompts have it.
struct Known {
  struct UnderWay {
    PromptPrefix prompt;
    PrefixPrediction prediction;
    bool lost = false;  // The replica's cache was emptied since.
  };
  std::set<std::uint64_t> computed;
  std::vector<UnderWay> under_way;

  Tokens held(const PromptPrefix& prompt) const {
    std::set<std::uint64_t> keys = computed;
    for (const auto& one : under_way)
      if (!one.lost)
        for (const auto& anchor : one.prompt.anchors) keys.insert(anchor.key);
    Tokens held = 0;
    for (const auto& anchor : prompt.anchors)
      if (keys.contains(anchor.key)) held = anchor.position / 4;
    return held;
  }
  void wipe() {
    computed.clear();
    for (auto& one : under_way) one.lost = true;
  }
};

/// Random prompts of a tree to random replicas, which compute them or not, in any order: what the index says is what a
/// map of keys says, as long as nothing leaves.
TEST_F(Prefixes, SayWhatAMapSays) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    index = PrefixIndex();
    const std::size_t replicas = 1 + random() % 9;
    places(replicas, 100'000'000);
    std::vector<Known> known(replicas);
    std::vector<std::vector<std::uint64_t>> paths{{}};
    const auto end = [&](ReplicaIndex replica, std::size_t which) {
      auto& under_way = known[replica].under_way;
      const auto one = under_way[which];
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
      if (random() % 2) return index.failed(one.prompt, one.prediction, replica);
      index.computed(one.prompt, one.prediction, replica);
      if (one.lost) return;
      for (const auto& anchor : one.prompt.anchors) known[replica].computed.insert(anchor.key);
    };
    for (int step = 0; step < 300; ++step) {
      std::vector<std::uint64_t> path = paths[random() % paths.size()];
      path.resize(random() % (path.size() + 1));
      for (std::uint64_t more = 1 + random() % 5; more > 0; --more) path.push_back(random() % 50);
      if (random() % 4 == 0) path = paths[random() % paths.size()];
      if (path.empty()) continue;
      paths.push_back(path);
      const auto prompt = prompt_of(path);
      for (ReplicaIndex replica = 0; replica < replicas; ++replica)
        ASSERT_EQ(held(prompt, replica), known[replica].held(prompt)) << "seed " << seed << ", step " << step;
      const auto to = static_cast<ReplicaIndex>(random() % replicas);
      // No more than are counted.
      if (known[to].under_way.size() < 30) known[to].under_way.push_back({prompt, send(prompt, to)});
      const auto of = static_cast<ReplicaIndex>(random() % replicas);
      for (std::uint64_t ends = random() % 3; ends > 0 && !known[of].under_way.empty(); --ends)
        end(of, random() % known[of].under_way.size());
      if (random() % 40 == 0) {
        const auto wiped = static_cast<ReplicaIndex>(random() % replicas);
        index.wipe(wiped, PrefixWipe::down);
        known[wiped].wipe();
      }
      if (random() % 60 == 0) {  // Another replica takes the place.
        const auto replaced = static_cast<ReplicaIndex>(random() % replicas);
        while (!known[replaced].under_way.empty()) end(replaced, 0);
        index.place({replaced, 1000 + static_cast<Serial>(step)}, 100'000'000);
        known[replaced] = {};
      }
    }
    for (ReplicaIndex replica = 0; replica < replicas; ++replica)
      while (!known[replica].under_way.empty()) end(replica, random() % known[replica].under_way.size());
    for (const auto& path : paths)
      for (ReplicaIndex replica = 0; replica < replicas && !path.empty(); ++replica)
        ASSERT_EQ(held(prompt_of(path), replica), known[replica].held(prompt_of(path))) << "seed " << seed;
  }
}

/// Whatever many clients send at a time and leave, in whatever order, is not there afterwards, and what was computed is.
TEST_F(Prefixes, NothingStaysOfAnyNumberOfPromptsThatFail) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    index = PrefixIndex();
    places(2);
    const auto computed = prompt_of({1, 2}), longer = prompt_of({1, 2, 3, 4});
    index.computed(computed, send(computed, 0), 0);
    std::vector<std::pair<ReplicaIndex, PrefixPrediction>> under_way;
    for (std::uint64_t many = 1 + random() % 100; many > 0; --many) {
      const auto to = static_cast<ReplicaIndex>(random() % 2);
      under_way.emplace_back(to, send(longer, to));
    }
    std::ranges::shuffle(under_way, random);
    const bool one_succeeds = random() % 2;
    const auto succeeds = random() % under_way.size();
    for (std::size_t i = 0; i < under_way.size(); ++i) {
      const auto& [replica, prediction] = under_way[i];
      if (one_succeeds && i == succeeds)
        index.computed(longer, prediction, replica);
      else
        index.failed(longer, prediction, replica);
    }
    for (const ReplicaIndex replica : {0u, 1u}) {
      const bool has_all = one_succeeds && under_way[succeeds].first == replica;
      EXPECT_EQ(held(longer, replica), has_all ? 4 * tokens_a_part : replica == 0 ? 2 * tokens_a_part : 0)
          << "seed " << seed << ", " << under_way.size() << " prompts";
    }
    EXPECT_LE(index.of(0).holdings().held(), 4 * tokens_a_part);
  }
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
}

TEST_F(Prefixes, APromptThatFailedTakesNothingFromALaterOne) {
  places(1);
  const auto first = prompt_of({1, 2, 3}), later = prompt_of({1, 2, 4});
  const auto prediction = send(first, 0);
  send(later, 0);
  index.failed(first, prediction, 0);
  EXPECT_EQ(held(first, 0), 2 * tokens_a_part) << "The later one has that, too.";
  EXPECT_EQ(held(later, 0), 3 * tokens_a_part);
}

TEST_F(Prefixes, ReplicasThatComeTakeNothingFromTheOthers) {
  places(2);
  std::vector<PromptPrefix> prompts;
  for (std::uint64_t i = 0; i < 200; ++i) {
    prompts.push_back(prompt_of({i, 2, 3}));
    serve(prompts.back(), i % 2, 0, {.prompt = 300, .cached = {}, .output = 7});
  }
  places(40);
  for (std::uint64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(index.refine(prompts[i], 192), 300u) << "Whose end is known is still known.";
    EXPECT_EQ(held(prompts[i], i % 2), 192u);
    EXPECT_EQ(held(prompts[i], 1 - i % 2), 0u);
    EXPECT_EQ(held(prompts[i], 30), 0u);
  }
}

TEST_F(Prefixes, WhatWasNotUsedForLongestLeavesAndItsEndFirst) {
  places(1, 6400);
  const auto old = prompt_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  send(old, 0);
  Tokens before = held(old, 0);
  EXPECT_EQ(before, 640u);
  for (std::uint64_t i = 100; i < 250; ++i) {
    send(prompt_of({i}), 0);
    const Tokens now = held(old, 0);
    EXPECT_LE(now, before) << "What has left does not come back by itself.";
    before = now;
  }
  EXPECT_EQ(before, 0u);
}

TEST_F(Prefixes, AMillionPromptsTakeNoMoreMemoryThanIsSaid) {
  places(4, 400'000);
  std::mt19937_64 random(3);
  for (int i = 0; i < 100'000; ++i) send(prompt_of({random(), random(), random(), random()}), random() % 4);
  EXPECT_LE(index.bytes(), 4 * PrefixIndex::bytes_per_replica);
  EXPECT_GE(index.bytes(), 3 * PrefixIndex::bytes_per_replica);
  for (ReplicaIndex i = 0; i < 4; ++i) EXPECT_LE(index.of(i).holdings().held(), 400'000u);
}

TEST_F(Prefixes, WhatTheTableForgetsIsHeldNoMore) {
  places(1, 1'000'000'000);
  std::mt19937_64 random(4);
  for (int i = 0; i < 60'000; ++i) send(prompt_of({random(), random(), random(), random()}), 0);
  const std::size_t lines = index.bytes() / (16 + 8 + 4 * index.places());
  EXPECT_LE(index.of(0).holdings().held(), lines * tokens_a_part);
  EXPECT_GE(index.of(0).holdings().held(), lines * tokens_a_part * 9 / 10);
}

TEST_F(Prefixes, ALineThatIsTakenOverIsNobodyElses) {
  places(2, 1'000'000'000);
  std::mt19937_64 random(6);
  for (ReplicaIndex i = 0; i < 60'000; ++i) {
    const auto prompt = prompt_of({random(), random(), random(), random()});
    const ReplicaIndex to = i % 2, other = 1 - to;
    send(prompt, to);
    ASSERT_EQ(held(prompt, other), 0u) << i;
  }
}

TEST_F(Prefixes, ALineThatIsUsedStaysWhileOthersGo) {
  places(1, 1'000'000'000);
  std::mt19937_64 random(7);
  const auto hot = prompt_of({1, 2, 3});
  send(hot, 0);
  for (int i = 0; i < 100'000; ++i) {
    send(prompt_of({random(), random(), random(), random()}), 0);
    if (i % 500 == 0) ASSERT_EQ(send(hot, 0).found.held, tokens_of(hot)) << i;
  }
}

TEST_F(Prefixes, AFailedPromptLeavesWhatOthersHaveUsedThereSince) {
  places(1);
  std::vector<std::uint64_t> path(100, 7);
  const auto first = prompt_of(path);
  const auto prediction = send(first, 0);
  path.back() = 8;
  const auto sibling = prompt_of(path);
  send(sibling, 0);
  index.failed(first, prediction, 0);
  EXPECT_EQ(held(first, 0), 99 * tokens_a_part);
  EXPECT_EQ(held(sibling, 0), 100 * tokens_a_part);
}

TEST_F(Prefixes, UsesOfABeginningAreCountedUpTo255) {
  places(1);
  for (std::uint64_t i = 1; i <= 300; ++i) {
    send(prompt_of({1, 2, 1000 + i}), 0);
    const auto next = prompt_of({1, 2, 3});
    index.look(next, tokens_of(next));
    ASSERT_EQ(index.uses(0), std::min<std::uint64_t>(i, 255));
  }
}

TEST_F(Prefixes, TheSameAnswerTwiceTakesRoomOnce) {
  places(1);
  const auto prompt = prompt_of({1, 2, 3});
  for (const Tokens output : {100u, 300u, 50u}) {
    serve(prompt, 0, 0, {.prompt = {}, .cached = {}, .output = output});
    EXPECT_EQ(index.of(0).holdings().held(), tokens_of(prompt) + output);
  }
}

TEST_F(Prefixes, AMissOfWhatCameBeforeAnAnswerSaysNothingOfAnswers) {
  places(1);
  serve(prompt_of({1, 2, 3}), 0, 0, {.prompt = 192, .cached = {}, .output = 64});
  const auto next = prompt_of({1, 2, 3, 4, 5});
  const auto prediction = send(next, 0);
  ASSERT_EQ(prediction.found.answer_whole, 64u);
  index.answered(prediction, 0, 0, {.prompt = 320, .cached = 0, .output = {}});
  EXPECT_EQ(index.answers_believed(), 1);
}

TEST_F(Prefixes, LessThanAHundredAndTwentyEightTokensCountAsNone) {
  places(1);
  send(prompt_of({1, 2}), 0);
  for (const auto& [path, cached] : {std::pair(std::vector<std::uint64_t>{1, 9, 9, 9}, Tokens{0}),
                                     std::pair(std::vector<std::uint64_t>{1, 2, 9, 9}, Tokens{128})}) {
    const auto prompt = prompt_of(path);
    index.look(prompt, tokens_of(prompt));
    EXPECT_EQ(index.cached(0, tokens_of(prompt)), cached);
  }
}

TEST_F(Prefixes, AnEndWhoseTokensAreKnownSaysMoreThanItsBytes) {
  places(1);
  const auto turn = prompt_of({1, 2, 3});
  const auto prediction = send(turn, 0);
  index.answered(prediction, 0, 0, {.prompt = 300, .cached = {}, .output = 100});
  const auto next = prompt_of({1, 2, 3, 4});
  EXPECT_EQ(index.refine(next, 256), 300u + 64u);
  index.look(next, 364);
  EXPECT_EQ(index.found(0).held, 300u + 64u) << "The answer before comes along, as far as the next message has room.";
}

TEST_F(Prefixes, AnswersThatAreNotFoundAgainAreBelievedNoMore) {
  places(1, 10'000'000);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const auto turn = prompt_of({i, 2, 3});
    serve(turn, 0, 0, {.prompt = 192, .cached = 0, .output = 64});
    const auto next = prompt_of({i, 2, 3, 4, 5});
    const auto prediction = send(next, 0);
    index.answered(prediction, 0, 0, {.prompt = 320, .cached = 192, .output = 10});
  }
  EXPECT_LT(index.answers_believed(), 0.05);
  send(prompt_of({1000, 2, 3}), 0);
}

TEST_F(Prefixes, TokenIdsAreCountedAsTheyAre) {
  places(1);
  PromptPrefix prefix;
  prefix.token_ids = true;
  for (std::uint64_t i = 1; i <= 10; ++i) prefix.anchors.push_back({i * 77, i * 16});
  index.sent(prefix, 0, 160);
  prefix.anchors.push_back({999, 203});
  index.look(prefix, 203);
  EXPECT_EQ(index.found(0).held, 160u);
}

// What replicas report.

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
  const auto answer = [&](Tokens cached) {
    serve(prompt, 0, 0, {.prompt = {}, .cached = cached, .output = {}});
  };
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
  EXPECT_EQ(index.answers_believed(), 1);
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
    send(lost, 0);
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
    serve(prompt, 0, tokens_of(prompt),
                   {.prompt = tokens_of(prompt), .cached = {}, .output = tokens_a_part});
    real = tokens_of(prompt) + tokens_a_part;
    EXPECT_EQ(index.of(0).holdings().held(), real) << "turn " << turn;
  }
}

TEST_F(Prefixes, WhatAnEngineToldTooSmallAtFirstDoesNotMultiplyWhatItTellsLater) {
  places(1, 16);
  index.told(0, 500'000);
  EXPECT_EQ(index.of(0).holdings().capacity(), 500'000u);
}

TEST_F(Prefixes, AReplicaThatReportsNothingIsBelieved) {
  places(1);
  const auto prompt = prompt_of(std::vector<std::uint64_t>(40, 7));
  for (int i = 0; i < 60; ++i) serve(prompt, 0, 0, {});
  index.look(prompt, 2560);
  EXPECT_EQ(index.cached(0, 2560), 2559u);
  EXPECT_FALSE(index.of(0).reports());
}

/// An engine with so many tokens of room, which forgets what was used longest ago; conversations go round and round.
Tokens capacity_learned(Tokens told, Tokens real) {
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
    for (auto anchor = prompt.anchors.rbegin(); anchor != prompt.anchors.rend(); ++anchor) {
      if (const auto found = used.find(anchor->key); found != used.end()) by_use.erase(found->second);
      used[anchor->key] = ++clock;
      by_use[clock] = anchor->key;
    }
    while (used.size() > room) {
      used.erase(by_use.begin()->second);
      by_use.erase(by_use.begin());
    }
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

TEST_F(Prefixes, TheGreatestDivisorOfWhatIsReportedIsTheGranularity) {
  places(1);
  const auto prompt = prompt_of(std::vector<std::uint64_t>(40, 7));
  send(prompt, 0);
  const auto answered = [&](Tokens cached, int many) {
    while (many-- > 0) serve(prompt, 0, 0, {.prompt = {}, .cached = cached, .output = {}});
    return index.of(0).granularity();
  };
  EXPECT_EQ(answered(2528, 3), 1u) << "three may agree by chance";
  EXPECT_EQ(answered(2528, 1), 32u);
  EXPECT_EQ(answered(2512, 1), 16u) << "a lower one is believed at once";
  EXPECT_EQ(answered(2528, 64), 32u);
  // The replica holds 600 tokens of the next prompt, of which 18 times 32 can be found.
  PromptPrefix ids;
  ids.token_ids = true;
  ids.anchors = {{77, 600}};
  index.sent(ids, 0, 600);
  ids.anchors.push_back({78, 1000});
  index.look(ids, 1000);
  const double believed = index.of(0).believed();
  EXPECT_EQ(index.cached(0, 1000), static_cast<Tokens>(576 * believed));
  for (int i = 0; i < 32; ++i) {
    answered(2560, 1);
    answered(2512, 1);
  }
  EXPECT_EQ(index.of(0).granularity(), 16u);
}

/// A prompt that is looked up again is not looked for again, if nothing has changed. Beside the index that may remember
/// stands one that gets another object each time.
TEST(PrefixLooks, AreRememberedUntilAnythingChanges) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    std::mt19937_64 random(seed);
    PrefixIndex one, other;
    const auto both = [&](auto change) {
      change(one);
      change(other);
    };
    std::uint32_t serial = 0;
    std::vector<std::unique_ptr<PromptPrefix>> kept;  // So that no address comes twice.
    std::vector<PromptPrefix> prompts;
    for (std::uint64_t i = 0; i < 4; ++i) prompts.push_back(prompt_of({1, i / 2, i, 7, 8, 9}));
    for (ReplicaIndex i = 0; i < 2; ++i) both([&, key = ReplicaKey{i, ++serial}](auto& index) { index.place(key, 3000); });
    PromptPrefix watched = prompts[0];
    const auto look = [&](Tokens prompt) {
      kept.push_back(std::make_unique<PromptPrefix>(watched));
      one.look(watched, prompt);
      other.look(*kept.back(), prompt);
    };
    for (int step = 0; step < 200; ++step) {
      const auto replica = static_cast<ReplicaIndex>(random() % 2);
      const auto which = random() % prompts.size();
      const Tokens tokens = tokens_of(prompts[which]);
      switch (random() % 9) {
        case 0: both([&, key = ReplicaKey{replica, ++serial}](auto& index) { index.place(key, 3000); }); break;
        case 1: both([&](auto& index) { index.wipe(replica, PrefixWipe::down); }); break;
        case 2: both([&, more = random() % 5000 + 500](auto& index) { index.told(replica, more); }); break;
        case 3: both([](auto& index) { index.forget_prompts(); }); break;
        case 4: watched = prompts[which]; break;
        default: {
          std::vector<PrefixPrediction> sent;
          both([&](auto& index) { sent.push_back(index.sent(prompts[which], replica, tokens)); });
          look(tokens_of(watched));
          const auto cached = random() % tokens;
          if (random() % 3 == 0) {
            one.failed(prompts[which], sent[0], replica);
            other.failed(prompts[which], sent[1], replica);
          } else if (random() % 2 == 0) {
            one.answered(sent[0], replica, tokens, {.prompt = tokens * 3 / 4, .cached = cached, .output = 30});
            other.answered(sent[1], replica, tokens, {.prompt = tokens * 3 / 4, .cached = cached, .output = 30});
          }
        }
      }
      for (const Tokens prompt : {tokens_of(watched), tokens_of(watched) / 2, tokens_of(watched)}) {
        look(prompt);
        for (ReplicaIndex i = 0; i < 2; ++i) {
          ASSERT_EQ(one.found(i).held, other.found(i).held) << "seed " << seed << ", step " << step;
          ASSERT_EQ(one.found(i).remembered, other.found(i).remembered) << "seed " << seed << ", step " << step;
          ASSERT_EQ(one.found(i).answer, other.found(i).answer) << "seed " << seed << ", step " << step;
          ASSERT_EQ(one.uses(i), other.uses(i)) << "seed " << seed << ", step " << step;
        }
        ASSERT_EQ(one.refine(watched, prompt), other.refine(*kept.back(), prompt)) << "seed " << seed << ", step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace weir::balancer
