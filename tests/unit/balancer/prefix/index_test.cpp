// What the index finds of a prompt, beside a map of keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/unit/balancer/prefix/prefixes.hpp"

namespace weir::balancer::prefix_index {
namespace {

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
    index.answered(send(prompt, 0), 0, 0, {.prompt = {}, .cached = {}, .output = output});
    EXPECT_EQ(index.of(0).holdings().held(), tokens_of(prompt) + output);
  }
}

TEST_F(Prefixes, AMissOfWhatCameBeforeAnAnswerSaysNothingOfAnswers) {
  places(1);
  index.answered(send(prompt_of({1, 2, 3}), 0), 0, 0, {.prompt = 192, .cached = {}, .output = 64});
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

}  // namespace
}  // namespace weir::balancer::prefix_index
