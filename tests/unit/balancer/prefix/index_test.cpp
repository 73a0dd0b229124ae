// The index beside a map of keys: both find the same beginnings of prompts.
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

/// A replica holds what it has computed, and what is under way there, however many prompts have it.
struct Known {
  struct UnderWay {
    PromptPrefix prompt;
    PrefixPrediction prediction;
    bool lost = false;    // The replica's cache was emptied since.
    bool missed = false;  // The cache was taken to be empty since: the prompt may have been computed after that.
  };
  std::set<std::uint64_t> computed;
  std::vector<UnderWay> under_way;

  Tokens held(const PromptPrefix& prompt) const {
    std::set<std::uint64_t> keys = computed;
    for (const auto& one : under_way)
      if (!one.lost && !one.missed)
        for (const auto& anchor : one.prompt.anchors) keys.insert(anchor.key);
    Tokens held = 0;
    for (const auto& anchor : prompt.anchors)
      if (keys.contains(anchor.key)) held = anchor.position / 4;
    return held;
  }
  /// Where a beginning was computed, so were all that it begins with.
  void send(const PromptPrefix& prompt, const PrefixPrediction& prediction) {
    for (std::size_t i = prompt.anchors.size(); i-- > 0;)
      if (computed.contains(prompt.anchors[i].key))
        for (std::size_t before = 0; before < i; ++before) computed.insert(prompt.anchors[before].key);
    under_way.push_back({prompt, prediction});
  }
  void compute(const UnderWay& one) {
    if (one.lost) return;
    for (std::size_t i = one.missed ? one.prediction.sure_anchors : 0; i < one.prompt.anchors.size(); ++i)
      computed.insert(one.prompt.anchors[i].key);
  }
  void wipe(PrefixWipe why) {
    computed.clear();
    for (auto& one : under_way) (why == PrefixWipe::missed ? one.missed : one.lost) = true;
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
      known[replica].compute(one);
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
      if (known[to].under_way.size() < 30) known[to].send(prompt, send(prompt, to));
      const auto of = static_cast<ReplicaIndex>(random() % replicas);
      for (std::uint64_t ends = random() % 3; ends > 0 && !known[of].under_way.empty(); --ends)
        end(of, random() % known[of].under_way.size());
      if (random() % 40 == 0) {
        const auto wiped = static_cast<ReplicaIndex>(random() % replicas);
        const auto why = random() % 2 ? PrefixWipe::down : PrefixWipe::missed;
        index.wipe(wiped, why);
        known[wiped].wipe(why);
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

/// Prompts that many clients send at a time and leave, in whatever order, are not there afterwards.
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
      EXPECT_EQ(held(longer, replica), has_all        ? 4 * tokens_a_part
                                       : replica == 0 ? 2 * tokens_a_part
                                                      : 0)
          << "seed " << seed << ", " << under_way.size() << " prompts";
    }
    EXPECT_LE(index.of(0).holdings().held(), 4 * tokens_a_part);
  }
}

TEST_F(Prefixes, APromptThatFailedTakesNothingFromAnEarlierOneThatIsAnsweredAfterItCame) {
  places(1, 4096);
  const auto prompt = prompt_of({1, 2});
  serve(prompt, 0, 128, {128, {}, {}});
  const auto again = send(prompt, 0);
  for (std::uint64_t other = 10; other < 90; ++other) {
    const auto room = prompt_of({other});
    index.computed(room, send(room, 0), 0);
  }
  ASSERT_EQ(held(prompt, 0), 0) << "there was no room for it";
  const auto later = send(prompt, 0);
  index.computed(prompt, again, 0);
  index.answered(again, 0, 128, {128, {}, {}});
  index.failed(prompt, later, 0);
  EXPECT_EQ(held(prompt, 0), 128);
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

TEST_F(Prefixes, WhatIsUnderWayIsStillInDoubtWhenReplicasCome) {
  places(2);
  const auto prompt = prompt_of({1, 2, 3});
  const auto prediction = send(prompt, 0);
  places(40);
  EXPECT_TRUE(send(prompt, 0).in_doubt());
  for (int prompts = 2; prompts > 0; --prompts) {
    EXPECT_EQ(held(prompt, 0), tokens_of(prompt));
    index.failed(prompt, prediction, 0);
  }
  EXPECT_EQ(held(prompt, 0), 0u);
}

/// A beginning that a burst waits for is known to be used by all of it as soon as it is there, and not before.
TEST_F(Prefixes, SiblingsCountAsUsesOnceTheirBeginningIsComputed) {
  places(1);
  const auto prompt = prompt_of({1, 2, 3});
  std::vector<PrefixPrediction> sent;
  for (int i = 0; i < 4; ++i) sent.push_back(send(prompt, 0));
  EXPECT_EQ(found(prompt, 0).uses, 0u);
  for (const auto& one : sent) index.computed(prompt, one, 0);
  EXPECT_EQ(found(prompt, 0).uses, 3u) << "the first had to compute it";
}

/// What left for want of room and is wanted again makes room dear. What went with the whole cache does not.
TEST_F(Prefixes, WhatIsWantedAgainIsWhatHadLeftForWantOfRoom) {
  for (const bool wiped : {false, true}) {
    index = {};
    places(1, 6400);
    for (int round = 0; round < 40; ++round) {
      for (std::uint64_t i = 0; i < 20; ++i) serve(prompt_of({i, i, i, i, i, i, i, i}), 0, 0, {});
      if (wiped) index.wipe(0, PrefixWipe::restarted);
    }
    if (wiped)
      EXPECT_LT(index.of(0).wanted_again(), 0.7) << "a round does not fit, so that some of it is";
    else
      EXPECT_GT(index.of(0).wanted_again(), 0.95);
  }
  index = {};
  places(1, 100'000);
  for (int round = 0; round < 40; ++round) {
    for (std::uint64_t i = 0; i < 20; ++i) serve(prompt_of({i, i, i, i, i, i, i, i}), 0, 0, {});
    index.wipe(0, PrefixWipe::restarted);
  }
  EXPECT_LT(index.of(0).wanted_again(), 0.1);
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
  const std::size_t lines = index.bytes() / (16 + 8 + 4 * 4);
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

TEST_F(Prefixes, UsesOfABeginningAreCountedOnceItIsComputed) {
  places(1);
  const auto next = prompt_of({1, 2, 3});
  const auto uses = [&] { return found(next, 0).uses; };
  // Siblings that come meanwhile say nothing of those that come later.
  const auto first = prompt_of({1, 2, 1000});
  const auto prediction = send(first, 0);
  for (std::uint64_t i = 0; i < 5; ++i) send(prompt_of({1, 2, 500 + i}), 0);
  EXPECT_EQ(uses(), 0u);
  index.computed(first, prediction, 0);
  for (std::uint64_t i = 1; i <= 600; ++i) {
    send(prompt_of({1, 2, 1000 + i}), 0);
    ASSERT_EQ(uses(), i);
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
  EXPECT_EQ(answers_believed(), 1);
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
  EXPECT_EQ(index.look(next, 364)[0].held, 300u + 64u)
      << "The answer before comes along, as far as the next message has room.";
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
  EXPECT_LT(answers_believed(), 0.05);
  send(prompt_of({1000, 2, 3}), 0);
}

TEST_F(Prefixes, TokenIdsAreCountedAsTheyAre) {
  places(1);
  PromptPrefix prefix;
  prefix.token_ids = true;
  for (std::uint64_t i = 1; i <= 10; ++i) prefix.anchors.push_back({i * 77, i * 16});
  index.sent(prefix, 0, 160);
  prefix.anchors.push_back({999, 203});
  EXPECT_EQ(index.look(prefix, 203)[0].held, 160u);
}

}  // namespace
}  // namespace weir::balancer::prefix_index
