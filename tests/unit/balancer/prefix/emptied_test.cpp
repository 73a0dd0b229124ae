// Beliefs about a cache end when the cache does, and no earlier: against an engine that is simulated beside the
// index, with its cache, its page and the answers that are under way when something happens to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "balancer/prefix/index.hpp"
#include "tests/unit/balancer/prompts.hpp"

namespace weir::balancer {
namespace {

using metrics::wire::PromptPrefix;

constexpr Tokens capacity = 100'000'000;

/// An engine whose cache loses nothing but all.
struct Engine {
  std::set<std::uint64_t> cache;  // Keys of anchors.
  double started = 1, worked = 0, looked_up = 0, found = 0;

  /// Returns how many tokens of the prompt it had, and has all of them from now on.
  Tokens take(const PromptPrefix& prompt) {
    Tokens had = 0;
    for (const auto& anchor : prompt.anchors) {
      if (cache.contains(anchor.key)) had = anchor.position;
      cache.insert(anchor.key);
    }
    had = std::min<Tokens>(had, prompt.length() - 1);
    worked += static_cast<double>(prompt.length());
    looked_up += static_cast<double>(prompt.length());
    found += static_cast<double>(had);
    return had;
  }
  void restart() { *this = {{}, started + 1}; }
};

struct UnderWay {
  std::shared_ptr<const PromptPrefix> prompt;
  PrefixPrediction prediction;
  Tokens had = 0;
  bool taken = false;  // The engine has looked into its cache.
};

/// Reports of engines.
struct Kind {
  bool reports = true, tells_start = true, counts_found = true;
};

class Emptied : public testing::TestWithParam<std::tuple<bool, bool, bool>> {
 protected:
  void begin() {
    index = PrefixIndex();
    index.place({0, 1}, capacity);
    engine = {};
    under_way.clear();
    wipes = {};
  }
  EngineSigns page() const {
    EngineSigns signs;
    if (kind.tells_start) signs.started = engine.started;
    signs.worked = {{"tokens", engine.worked}};
    if (kind.counts_found) signs.looked_up = engine.looked_up, signs.found = engine.found;
    return signs;
  }
  void send(std::uint64_t conversation, Tokens tokens) {
    auto prompt = prefix_of(conversation, tokens);
    const auto prediction = index.sent(*prompt, 0, tokens);
    under_way.push_back({prompt, prediction});
  }
  /// The engine begins with this one, after all that came before it.
  void take(std::size_t which) {
    for (std::size_t i = 0; i <= which; ++i)
      if (!std::exchange(under_way[i].taken, true)) under_way[i].had = engine.take(*under_way[i].prompt);
  }
  void answer(std::size_t which) {
    take(which);
    const UnderWay one = under_way[which];
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
    const Tokens tokens = one.prompt->length();
    index.computed(*one.prompt, one.prediction, 0);
    index.answered(one.prediction, 0, tokens,
                   {.prompt = tokens, .cached = kind.reports ? std::optional(one.had) : std::nullopt, .output = 0});
  }
  /// The cache is gone, and weir hears of it before anything else is sent.
  void emptied(PrefixWipe why) {
    // Counters that have not been seen above 0 do not show that they begin anew.
    if (why == PrefixWipe::restarted) index.told(0, page());
    if (why == PrefixWipe::restarted && !kind.tells_start && engine.worked == 0) why = PrefixWipe::down;
    if (index.of(0).holdings().held() > 0) ++wipes[static_cast<std::size_t>(why)];
    switch (why) {
      case PrefixWipe::restarted:
        engine.restart();
        index.told(0, page());
        break;
      case PrefixWipe::asleep: {
        engine.cache.clear();
        auto signs = page();
        signs.asleep = true;
        index.told(0, signs);
        break;
      }
      default:
        engine.cache.clear();
        index.wipe(0, why);
    }
  }

  Kind kind{std::get<0>(GetParam()), std::get<1>(GetParam()), std::get<2>(GetParam())};
  PrefixIndex index;
  Engine engine;
  std::deque<UnderWay> under_way;
  std::array<std::uint64_t, prefix_wipe_names.size()> wipes{};
};

/// Random sequences: whatever is under way when the cache ends, nothing sent before is believed afterwards, what was
/// sent later is, answers of before teach nothing of the cache of now, and each end counts once under its reason.
TEST_P(Emptied, BeliefsEndWithTheCacheAndNoEarlier) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    begin();
    std::mt19937_64 random(seed);
    std::map<std::uint64_t, Tokens> sent;  // By conversation, since the cache was emptied last.
    EngineSigns late = page();
    index.told(0, late);
    for (int step = 0; step < 400; ++step) {
      const auto what = random() % 100;
      if (what < 45) {
        const std::uint64_t conversation = random() % 6;
        const Tokens tokens = 64 * (1 + random() % 80);
        send(conversation, tokens);
        sent[conversation] = std::max(sent[conversation], tokens);
        if (random() % 2) take(under_way.size() - 1);
      } else if (what < 80) {
        if (!under_way.empty()) answer(random() % under_way.size());
      } else if (what < 88) {
        late = page();  // The engine has written its page; weir reads it later.
      } else if (what < 95) {
        index.told(0, late);
      } else {
        static constexpr PrefixWipe reasons[]{PrefixWipe::down, PrefixWipe::restarted, PrefixWipe::flushed,
                                              PrefixWipe::asleep};
        emptied(reasons[random() % std::size(reasons)]);
        late = page();
        sent.clear();
      }
      for (std::uint64_t conversation = 0; conversation < 6; ++conversation) {
        const auto prompt = prefix_of(conversation, 64 * 81);
        ASSERT_EQ(index.look(*prompt, prompt->length())[0].held, sent[conversation])
            << "seed " << seed << ", step " << step;
      }
      ASSERT_EQ(index.of(0).sums().wipes, wipes) << "seed " << seed << ", step " << step;
      ASSERT_GT(index.of(0).believed(), 0.99) << "seed " << seed << ", step " << step;
      ASSERT_EQ(index.of(0).holdings().capacity(), capacity);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, Emptied, testing::Combine(testing::Bool(), testing::Bool(), testing::Bool()));

class EnginePageSays : public testing::Test {
 protected:
  EnginePageSays() { index.place({0, 1}, capacity); }
  std::uint64_t wipes(PrefixWipe why) const { return index.of(0).sums().wipes[static_cast<std::size_t>(why)]; }
  /// The engine answers a prompt, and says nothing of what it found.
  void serve(std::uint64_t conversation, Tokens tokens) {
    const auto prompt = prefix_of(conversation, tokens);
    const auto prediction = index.sent(*prompt, 0, tokens);
    index.computed(*prompt, prediction, 0);
    index.answered(prediction, 0, tokens, {.prompt = tokens, .cached = {}, .output = 0});
    looked_up += static_cast<double>(tokens);
  }
  void read() { index.told(0, {.started = {}, .worked = {}, .looked_up = looked_up, .found = found}); }

  PrefixIndex index;
  double looked_up = 0, found = 0;
};

TEST_F(EnginePageSays, ThatNothingWasFoundSoTheCacheWasEmptied) {
  for (std::uint64_t i = 0; i < 5; ++i) serve(i, 4000);
  found += 100;
  read();
  for (std::uint64_t i = 0; i < 3; ++i) serve(i, 4100);
  read();
  EXPECT_EQ(wipes(PrefixWipe::missed), 0u) << "The page may be older than the answers that came just before it.";
  read();
  EXPECT_EQ(wipes(PrefixWipe::missed), 1u);
  EXPECT_EQ(index.of(0).holdings().held(), 0u);
}

TEST_F(EnginePageSays, ThatTwoOrSmallPromptsFoundNothingWhichSaysLittle) {
  for (std::uint64_t i = 0; i < 9; ++i) serve(i, i < 2 ? 4000 : 900);
  read();
  for (std::uint64_t i = 0; i < 9; ++i) serve(i, i < 2 ? 4100 : 1000);
  for (int i = 0; i < 3; ++i) read();
  EXPECT_EQ(wipes(PrefixWipe::missed), 0u);
}

TEST_F(EnginePageSays, NothingOfPromptsThatWaitForTheFirstOfTheirBeginning) {
  serve(0, 4000);
  found += 100;
  read();
  const auto prompt = prefix_of(1, 4000);
  std::vector<PrefixPrediction> siblings;
  for (int i = 0; i < 6; ++i) siblings.push_back(index.sent(*prompt, 0, 4000));
  for (const auto& one : siblings) {
    index.computed(*prompt, one, 0);
    index.answered(one, 0, 4000, {.prompt = 4000, .cached = {}, .output = 0});
    looked_up += 4000;
  }
  for (int i = 0; i < 3; ++i) read();
  EXPECT_EQ(wipes(PrefixWipe::missed), 0u);
}

TEST_F(EnginePageSays, NothingOfACacheThatIsNotLookedUp) {
  for (std::uint64_t i = 0; i < 5; ++i) serve(i, 4000);
  read();
  const double then = looked_up;
  for (std::uint64_t i = 0; i < 5; ++i) serve(i, 4100);
  looked_up = then;
  for (int i = 0; i < 3; ++i) read();
  EXPECT_EQ(wipes(PrefixWipe::missed), 0u);
}

/// A cache that is switched off counts look-ups in some engines (SGLang's prompt tokens), and never a hit.
TEST_F(EnginePageSays, OnceThatACacheIsEmptyWhichNeverHasAnything) {
  read();
  for (int i = 0; i < 20; ++i) {
    for (std::uint64_t c = 0; c < 4; ++c) serve(c, 4000);
    read();
  }
  EXPECT_EQ(wipes(PrefixWipe::missed), 1u);
  found += 4000;
  read();
  for (int i = 0; i < 3; ++i) {
    for (std::uint64_t c = 0; c < 4; ++c) serve(c, 4000);
    read();
  }
  EXPECT_EQ(wipes(PrefixWipe::missed), 2u) << "It has found something since.";
}

TEST_F(EnginePageSays, LessThanTheAnswersOfAnEngineThatReports) {
  for (std::uint64_t i = 0; i < 5; ++i) serve(i, 4000);
  const auto prompt = prefix_of(0, 4000);
  index.answered(index.sent(*prompt, 0, 4000), 0, 4000, {.prompt = 4000, .cached = 3999, .output = 0});
  read();
  for (std::uint64_t i = 0; i < 5; ++i) serve(i, 4100);
  for (int i = 0; i < 3; ++i) read();
  EXPECT_EQ(wipes(PrefixWipe::missed), 0u);
}

/// An engine that is started anew may have lost the option with which it reported.
TEST_F(EnginePageSays, WhatAnEngineThatReportsNoMoreHasFound) {
  const auto prompt = prefix_of(0, 4000);
  index.answered(index.sent(*prompt, 0, 4000), 0, 4000, {.prompt = 4000, .cached = 0, .output = 0});
  index.told(0, {.started = 1000});
  index.told(0, {.started = 2000});
  ASSERT_EQ(wipes(PrefixWipe::restarted), 1u);
  for (std::uint64_t i = 0; i < 5; ++i) serve(i, 4000);
  read();
  for (std::uint64_t i = 0; i < 5; ++i) serve(i, 4100);
  for (int i = 0; i < 3; ++i) read();
  EXPECT_EQ(wipes(PrefixWipe::missed), 1u);
}

TEST_F(EnginePageSays, ThatItStartedAnew) {
  struct Row {
    const char* what;
    EngineSigns first, second;
    bool anew;
  };
  const Row rows[]{
      {"a later start", {.started = 1000}, {.started = 2000}, true},
      {"a clock that was set back", {.started = 2000}, {.started = 1000}, true},
      {"the same start", {.started = 1000}, {.started = 1000}, false},
      {"a start that is not told any more", {.started = 1000}, {}, false},
      {"counters that fell", {.worked = {{"a", 500}}}, {.worked = {{"a", 499}}}, true},
      {"counters that stand still", {.worked = {{"a", 500}}}, {.worked = {{"a", 500}}}, false},
      {"a sum of fractions in another order",
       {.worked = {{"a", 0.1 + 0.2 + 0.3}}},
       {.worked = {{"a", 0.3 + 0.2 + 0.1}}},
       false},
      {"counters that are gone", {.worked = {{"a", 500}}}, {}, false},
      {"one of two that fell", {.worked = {{"a", 500}, {"b", 70}}}, {.worked = {{"a", 600}, {"b", 60}}}, true},
      {"one of two that is not told", {.worked = {{"a", 500}, {"b", 70}}}, {.worked = {{"b", 80}}}, false},
      {"another counter in the place of one", {.worked = {{"a", 500}}}, {.worked = {{"b", 3}}}, false},
      {"one process with an engine less on its page",
       {.started = 1, .worked = {{"a", 5}}},
       {.started = 1, .worked = {{"a", 3}}},
       false},
      {"a start that is told for the first time",
       {.worked = {{"a", 500}}},
       {.started = 7, .worked = {{"a", 500}}},
       false},
      {"another address", {}, {.another = true}, true},
  };
  for (const auto& [what, first, second, anew] : rows) {
    PrefixIndex fresh;
    fresh.place({0, 1}, capacity);
    fresh.told(0, first);
    const auto prompt = prefix_of(1, 2000);
    fresh.sent(*prompt, 0, 2000);
    fresh.told(0, second);
    EXPECT_EQ(fresh.of(0).holdings().held() == 0, anew) << what;
    EXPECT_EQ(fresh.of(0).sums().wipes[static_cast<std::size_t>(PrefixWipe::restarted)], anew ? 1u : 0u) << what;
  }
}

TEST_F(EnginePageSays, ThatItStartedAnewAlsoAfterAPageThatLackedACounter) {
  index.told(0, {.worked = {{"a", 500}, {"b", 70}}});
  serve(1, 2000);
  index.told(0, {.worked = {{"a", 500}}});
  index.told(0, {.worked = {{"a", 500}, {"b", 70}}});
  EXPECT_EQ(wipes(PrefixWipe::restarted), 0u);
  index.told(0, {.worked = {{"b", 80}}});
  index.told(0, {.worked = {{"a", 3}, {"b", 80}}});
  EXPECT_EQ(wipes(PrefixWipe::restarted), 1u);
}

TEST_F(EnginePageSays, NothingOfTheEngineThatWasThereBeforeAnotherOne) {
  index.told(0, {.started = 1000, .worked = {{"a", 500}}});
  index.told(0, {.another = true});
  serve(1, 2000);
  index.told(0, {.started = 900, .worked = {{"a", 3}}});
  EXPECT_GT(index.of(0).holdings().held(), 0u);
}

TEST_F(EnginePageSays, ThatItSleepsAsLongAsItDoes) {
  serve(1, 2000);
  for (int i = 0; i < 3; ++i) index.told(0, {.asleep = true});
  EXPECT_EQ(index.of(0).holdings().held(), 0u);
  EXPECT_EQ(wipes(PrefixWipe::asleep), 1u) << "An empty cache is not emptied.";
  serve(1, 2000);
  index.told(0, {});
  EXPECT_GT(index.of(0).holdings().held(), 0u);
}

}  // namespace
}  // namespace weir::balancer
