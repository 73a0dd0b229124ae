// The index against caches that are simulated beside it, block by block.
#include "balancer/prefix/index.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <set>
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

/// Random prompts of a tree to random replicas: what the index says is what a map of keys says, as long as nothing
/// leaves.
TEST_F(Prefixes, SayWhatAMapSays) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    index = PrefixIndex();
    const std::size_t replicas = 1 + random() % 9;
    places(replicas, 100'000'000);
    std::vector<std::set<std::uint64_t>> known(replicas);
    std::vector<std::vector<std::uint64_t>> paths{{}};
    for (int step = 0; step < 300; ++step) {
      std::vector<std::uint64_t> path = paths[random() % paths.size()];
      path.resize(random() % (path.size() + 1));
      for (std::uint64_t more = 1 + random() % 5; more > 0; --more) path.push_back(random() % 50);
      paths.push_back(path);
      const auto prompt = prompt_of(path);
      for (ReplicaIndex replica = 0; replica < replicas; ++replica) {
        Tokens expected = 0;
        for (const auto& anchor : prompt.anchors)
          if (known[replica].contains(anchor.key)) expected = anchor.position / 4;
        ASSERT_EQ(held(prompt, replica), expected) << "seed " << seed << ", step " << step;
      }
      const auto to = static_cast<ReplicaIndex>(random() % replicas);
      const auto prediction = send(prompt, to);
      if (random() % 8 == 0) {
        index.failed(prompt, prediction, to);
        ASSERT_EQ(held(prompt, to), prediction.found.held) << "What was there before still is, and no more.";
      } else {
        for (const auto& anchor : prompt.anchors) known[to].insert(anchor.key);
      }
      if (random() % 40 == 0) {
        const auto wiped = static_cast<ReplicaIndex>(random() % replicas);
        index.wipe(wiped, PrefixWipe::down);
        known[wiped].clear();
      }
      if (random() % 60 == 0) {  // Another replica takes the place.
        const auto replaced = static_cast<ReplicaIndex>(random() % replicas);
        index.place({replaced, 1000 + static_cast<Serial>(step)}, 100'000'000);
        known[replaced].clear();
      }
    }
  }
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
    index.answered(send(prompts.back(), i % 2), i % 2, 0, {.prompt = 300, .cached = {}, .output = 7});
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
    index.answered(send(turn, 0), 0, 0, {.prompt = 192, .cached = 0, .output = 64});
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
      index.answered(send(prompt, replica), replica, 0, {.prompt = {}, .cached = tokens_of(prompt) - 1, .output = {}});
  }
  auto path = long_path;
  for (std::uint64_t i = 0; i < 3; ++i) {
    path.push_back(i);
    EXPECT_GE(held(prompt_of(path), 0), 2500u) << "Before the third miss it is believed.";
    index.answered(send(prompt_of(path), 0), 0, 0, {.prompt = {}, .cached = 0, .output = {}});
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
    index.answered(send(prompt, 0), 0, 0, {.prompt = {}, .cached = cached, .output = {}});
  EXPECT_EQ(index.of(0).sums().wipes[static_cast<std::size_t>(PrefixWipe::missed)], 0u);
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

TEST_F(Prefixes, AReplicaThatReportsNothingIsBelieved) {
  places(1);
  const auto prompt = prompt_of(std::vector<std::uint64_t>(40, 7));
  for (int i = 0; i < 60; ++i) index.answered(send(prompt, 0), 0, 0, {});
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
  for (int i = 0; i < 64; ++i) index.answered(send(prompt, 0), 0, 0, {.prompt = {}, .cached = 2528, .output = {}});
  EXPECT_EQ(index.of(0).granularity(), 32u);
  for (int i = 0; i < 64; ++i) index.answered(send(prompt, 0), 0, 0, {.prompt = {}, .cached = 2512, .output = {}});
  EXPECT_EQ(index.of(0).granularity(), 16u);
}

}  // namespace
}  // namespace weir::balancer
