#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "lab/engine/engine_model.hpp"
#include "lab/engine/memory.hpp"
#include "lab/engine/words.hpp"

namespace weir::lab::engine {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

/// Returns the blocks of a prompt of `tokens` tokens, which parts from those with another `rest` behind `shared`
/// tokens.
std::vector<std::uint64_t> blocks_of(std::uint64_t tokens, std::uint64_t shared, std::uint64_t rest,
                                     std::string_view salt = {}) {
  PromptBlocks blocks(salt);
  for (std::uint64_t i = 0; i < tokens; ++i) blocks.add(i < shared ? i : 1'000'000 * rest + i);
  return blocks.take();
}

TEST(PromptBlocks, HaveWholeBlocksOnly) {
  EXPECT_THAT(blocks_of(15, 0, 1), IsEmpty());
  EXPECT_THAT(blocks_of(16, 0, 1), SizeIs(1));
  EXPECT_THAT(blocks_of(47, 0, 1), SizeIs(2));
}

TEST(PromptBlocks, AreThoseOfAllTokensBeforeTheirEnd) {
  const auto a = blocks_of(64, 40, 1), b = blocks_of(64, 40, 2);
  EXPECT_EQ(a[1], b[1]);
  EXPECT_NE(a[2], b[2]);
  EXPECT_NE(a[3], b[3]);
  PromptBlocks repeated;
  for (std::uint64_t i = 0; i < 48; ++i) repeated.add(i % 16);
  const auto blocks = repeated.take();
  EXPECT_NE(blocks[0], blocks[1]) << "the same tokens behind others are another block";
}

TEST(PromptBlocks, HaveNothingInCommonUnderDifferentSalts) {
  const auto plain = blocks_of(64, 64, 1), a = blocks_of(64, 64, 1, "a"), b = blocks_of(64, 64, 1, "b");
  EXPECT_EQ(a, blocks_of(64, 64, 1, "a"));
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ((std::set{plain[i], a[i], b[i]}.size()), 3u) << i;
}

TEST(CommonBlocks, EndAtTheFirstThatDiffers) {
  using Blocks = std::vector<std::uint64_t>;
  EXPECT_EQ(common_blocks(Blocks{1, 2, 3}, Blocks{1, 2, 4, 5}), 2u);
  EXPECT_EQ(common_blocks(Blocks{1, 2}, Blocks{1, 2, 3}), 2u);
  EXPECT_EQ(common_blocks(Blocks{1}, Blocks{}), 0u);
}

TEST(CacheReport, SaysWhatItIsToSay) {
  EXPECT_EQ(reported_tokens(CacheReport::exact, 208), 208u);
  EXPECT_EQ(reported_tokens(CacheReport::none, 208), std::nullopt);
  EXPECT_EQ(reported_tokens(CacheReport::half, 208), 104u);
  EXPECT_EQ(reported_tokens(CacheReport::coarse, 208), 192u);
  EXPECT_EQ(reported_tokens(CacheReport::coarse, 48), 0u);
  EXPECT_EQ(reported_tokens(CacheReport::nonzero, 208), 208u);
  EXPECT_EQ(reported_tokens(CacheReport::nonzero, 0), std::nullopt);
  EXPECT_EQ(reported_tokens(CacheReport::exact, 0), 0u);
}

/// Returns the time to the first token of each of the prompts, one after the other, and how much of it was cached.
std::vector<std::pair<nanoseconds, std::uint64_t>> first_tokens(const EngineSettings& settings,
                                                                const std::vector<Sequence>& sequences) {
  EngineModel engine(settings, 1);
  std::vector<std::pair<nanoseconds, std::uint64_t>> seen;
  for (const Sequence& sequence : sequences) {
    EXPECT_TRUE(engine.submit(sequence));
    nanoseconds took{0};
    for (bool first = true; const auto step = engine.begin_step();) {
      took += *step;
      for (const TokenEvent& event : engine.end_step()) {
        if (std::exchange(first, false)) seen.emplace_back(took, event.cached_tokens);
      }
    }
  }
  return seen;
}

class EnginePrefixes : public testing::TestWithParam<Batching> {
 protected:
  EnginePrefixes() {
    settings_.batching = GetParam();
    settings_.step_base = nanoseconds(1'000'000);
    settings_.per_prefill_token = nanoseconds(1'000);
    settings_.per_kv_token = nanoseconds(0);
    settings_.jitter = 0;
    settings_.prefix_caching = PrefixCaching::blocks;
  }
  EngineSettings settings_;
};

TEST_P(EnginePrefixes, AFirstTokenTakesAsLongAsWhatIsNotCached) {
  const auto seen = first_tokens(settings_, {{1, 1'000, 3, blocks_of(1'000, 800, 1)},
                                             {2, 1'000, 3, blocks_of(1'000, 800, 2)},
                                             {3, 1'000, 3, blocks_of(1'000, 0, 3)}});
  using Seen = std::pair<nanoseconds, std::uint64_t>;
  EXPECT_THAT(seen, testing::ElementsAre(Seen{2'000'000, 0}, Seen{1'200'000, 800}, Seen{2'000'000, 0}));
}

TEST_P(EnginePrefixes, OneTokenIsAlwaysComputed) {
  const Sequence whole{1, 64, 2, blocks_of(64, 64, 1)};
  const auto seen = first_tokens(settings_, {whole, whole});
  EXPECT_EQ(seen[1].second, 48u) << "a prompt of four whole blocks makes its first token from the last one";
  EXPECT_EQ(seen[1].first, nanoseconds(1'016'000));
}

INSTANTIATE_TEST_SUITE_P(Both, EnginePrefixes, testing::Values(Batching::continuous, Batching::static_batches));

TEST(EnginePrefix, IsNotKeptWithoutPrefixCaching) {
  const Sequence whole{1, 64, 2, blocks_of(64, 64, 1)};
  EXPECT_EQ(first_tokens(EngineSettings{}, {whole, whole})[1].second, 0u);
  for (const EnginePreset& preset : engine_presets()) {
    EXPECT_EQ(preset.settings.prefix_caching, PrefixCaching::none) << preset.name;
  }
}

EngineSettings caching(PrefixCaching how, std::uint64_t kv_tokens = 60'000) {
  EngineSettings settings;
  settings.prefix_caching = how;
  settings.kv_tokens = kv_tokens;
  return settings;
}

void run(EngineModel& engine, const Sequence& sequence) {
  ASSERT_TRUE(engine.submit(sequence));
  while (engine.begin_step()) engine.end_step();
}

TEST(EnginePrefix, ThatWasAbortedBeforeItsFirstStepEndedIsNotKept) {
  EngineModel engine(caching(PrefixCaching::blocks), 1);
  const auto blocks = blocks_of(64, 64, 1);
  engine.submit({1, 64, 2, blocks});
  engine.begin_step();
  engine.abort(1);
  engine.end_step();
  engine.submit({2, 65, 2, blocks});
  engine.begin_step();
  EXPECT_EQ(engine.last_step().prefill, 65u);
}

TEST(EnginePrefix, IsFoundAsSoonAsItIsComputedAndNotBefore) {
  EngineSettings settings = caching(PrefixCaching::blocks);
  settings.prefill_budget = 100;
  EngineModel engine(settings, 1);
  const Sequence first{1, 300, 50, blocks_of(300, 200, 1)}, sibling{2, 300, 50, blocks_of(300, 200, 2)};
  engine.submit(first);
  std::vector<std::uint64_t> found{engine.cached(sibling)};
  for (int step = 0; step < 3; ++step) {
    engine.begin_step();
    engine.end_step();
    found.push_back(engine.cached(sibling));
  }
  EXPECT_THAT(found, testing::ElementsAre(0, 96, 192, 192)) << "pieces of 100 tokens are 6 and 12 whole blocks";
}

TEST(EnginePrefix, GoesOnInTheAnswerButForItsLastToken) {
  for (const std::uint64_t output : {16u, 17u}) {
    EngineModel engine(caching(PrefixCaching::blocks), 1);
    const auto conversation = blocks_of(200, 200, 1);
    run(engine, {1, 64, output, conversation});
    EXPECT_EQ(engine.cached({2, 200, 1, conversation}), output == 17 ? 80u : 64u)
        << "keys and values of a token are computed with the next one";
  }
}

TEST(EnginePrefix, SharedByRunningSequencesTakesMemoryOnce) {
  EngineModel engine(caching(PrefixCaching::blocks, 1'600), 1);
  run(engine, {1, 800, 16, blocks_of(800, 800, 1)});
  EXPECT_EQ(engine.occupancy().kv_reserved, 0u) << "memory of earlier sequences is free";
  for (SequenceId id = 2; id <= 5; ++id) engine.submit({id, 960, 32, blocks_of(960, 800, id)});
  engine.begin_step();
  EXPECT_EQ(engine.occupancy().running, 4u);
  EXPECT_EQ(engine.occupancy().kv_reserved, 800 + 4 * (160 + 32u));
  engine.end_step();
  engine.submit({6, 32, 17});
  engine.begin_step();
  EXPECT_EQ(engine.occupancy().waiting, 1u) << "3 blocks are left, and it needs 4";
  engine.end_step();
}

TEST(EnginePrefix, LosesItsEndFirstAndTheOneFreedLongestAgo) {
  EngineModel engine(caching(PrefixCaching::blocks, 160), 1);
  const Sequence a{1, 64, 1, blocks_of(64, 0, 1)}, b{2, 64, 1, blocks_of(64, 0, 2)};
  run(engine, a);
  run(engine, b);
  Sequence longer_a = a, longer_b = b;
  longer_a.prompt_tokens = longer_b.prompt_tokens = 65;
  EXPECT_EQ(engine.cached(longer_a), 64u);
  run(engine, {3, 47, 1});
  EXPECT_EQ(engine.cached(longer_a), 48u) << "2 blocks were blank, and a third was needed";
  EXPECT_EQ(engine.cached(longer_b), 64u);
  run(engine, longer_a);
  run(engine, {4, 47, 1});
  EXPECT_EQ(engine.cached(longer_a), 64u) << "it was used since";
  EXPECT_EQ(engine.cached(longer_b), 48u);
}

TEST(EnginePrefix, IsForgottenInAFlushAlsoByThoseWhoUseIt) {
  for (const PrefixCaching how : {PrefixCaching::blocks, PrefixCaching::slots}) {
    EngineModel engine(caching(how), 1);
    const Sequence sequence{1, 320, 40, blocks_of(320, 320, 1)};
    run(engine, sequence);
    engine.submit(sequence);
    engine.begin_step();
    engine.end_step();
    engine.flush();
    const Sequence again{2, 320, 40, sequence.blocks};
    EXPECT_EQ(engine.cached(again), 0u);
    while (engine.begin_step()) engine.end_step();
    EXPECT_EQ(engine.cached(again), 0u);
    EXPECT_EQ(engine.occupancy().kv_reserved, 0u);
    run(engine, again);
    EXPECT_EQ(engine.cached(sequence), 304u);
  }
}

class Slots : public testing::Test {
 protected:
  Slots() {
    EngineSettings settings = caching(PrefixCaching::slots, 3'000);
    settings.max_batch = 3;
    engine_.emplace(settings, 1);
  }
  std::optional<EngineModel> engine_;
};

TEST_F(Slots, HaveEqualPartsOfTheMemory) {
  EXPECT_TRUE(engine_->submit({1, 900, 100}));
  EXPECT_FALSE(engine_->submit({2, 900, 101}));
}

TEST_F(Slots, KeepTheLastConversationOfEach) {
  const auto conversation = [](std::uint64_t n) { return Sequence{n, 320, 17, blocks_of(400, 0, n)}; };
  for (std::uint64_t n = 1; n <= 3; ++n) run(*engine_, conversation(n));
  for (std::uint64_t n = 1; n <= 3; ++n) EXPECT_EQ(engine_->cached(conversation(n)), 304u) << n;
  run(*engine_, conversation(4));
  EXPECT_EQ(engine_->cached(conversation(1)), 0u) << "the slot used longest ago was taken whole";
  EXPECT_EQ(engine_->cached(conversation(2)), 304u);
  Sequence longer = conversation(2);
  longer.prompt_tokens = 400;
  EXPECT_EQ(engine_->cached(longer), 336u) << "prompt and answer, but for the last token, are 21 blocks";
}

TEST_F(Slots, AreTakenForATenthOfThePromptInCommonAndLoseTheRest) {
  const Sequence a{1, 480, 1, blocks_of(480, 480, 1)}, short_common{2, 480, 1, blocks_of(480, 48, 2)},
      common{3, 480, 1, blocks_of(480, 64, 3)};
  run(*engine_, a);
  run(*engine_, short_common);
  EXPECT_EQ(engine_->cached({9, 480, 1, a.blocks}), 464u) << "48 tokens are not more than a tenth of 480";
  run(*engine_, common);
  EXPECT_EQ(engine_->cached({9, 480, 1, a.blocks}), 64u);
}

/// Submits, steps, aborts and flushes at random, and remembers what may ever have been computed.
class RandomEngine {
 public:
  RandomEngine(const EngineSettings& settings, std::uint64_t seed) : engine_(settings, seed), random_(seed) {}

  void act() {
    const std::uint64_t what = random_.below(100);
    if (what < 30) return submit();
    if (what < 34 && !in_model_.empty()) {
      const auto id = std::next(in_model_.begin(), static_cast<std::ptrdiff_t>(random_.below(in_model_.size())))->first;
      EXPECT_TRUE(engine_.abort(id));
      in_model_.erase(id);
      return;
    }
    if (what == 34) return engine_.flush();
    if (engine_.begin_step()) end_step();
  }
  void run_dry() {
    while (engine_.begin_step()) end_step();
    EXPECT_TRUE(in_model_.empty());
    EXPECT_EQ(engine_.occupancy().kv_reserved, 0u);
  }

 private:
  void submit() {
    const std::uint64_t family = random_.below(4), shared = random_.below(200), prompt = 1 + random_.below(250);
    Sequence sequence{next_++, prompt, 1 + random_.below(60), {}};
    PromptBlocks blocks;
    for (std::uint64_t i = 0; i < sequence.tokens(); ++i)
      blocks.add(i < shared ? family * 1'000 + i : ~next_ * 512 + i);
    sequence.blocks = blocks.take();
    if (engine_.submit(sequence)) in_model_[sequence.id] = sequence;
  }
  void end_step() {
    EXPECT_LE(engine_.occupancy().kv_reserved, engine_.settings().kv_tokens);
    // A prompt that is aborted before its first token may be there in part.
    const auto events = engine_.end_step();
    for (const auto& [id, sequence] : in_model_) {
      const auto prompt = sequence.prompt_tokens / block_tokens;
      computed_.insert(sequence.blocks.begin(), sequence.blocks.begin() + static_cast<std::ptrdiff_t>(prompt));
    }
    for (const TokenEvent& event : events) {
      const Sequence& sequence = in_model_.at(event.id);
      if (event.index == event.tokens) {
        EXPECT_EQ(event.cached_tokens % block_tokens, 0u);
        EXPECT_LT(event.cached_tokens, sequence.prompt_tokens);
        for (std::size_t i = 0; i < event.cached_tokens / block_tokens; ++i)
          EXPECT_TRUE(computed_.contains(sequence.blocks[i])) << "nobody ever computed it";
      }
      const auto full = (sequence.prompt_tokens + event.index - 1) / block_tokens;
      computed_.insert(sequence.blocks.begin(), sequence.blocks.begin() + static_cast<std::ptrdiff_t>(full));
      if (event.last) in_model_.erase(event.id);
    }
    EXPECT_LE(engine_.occupancy().kv_reserved, engine_.settings().kv_tokens);
  }

  EngineModel engine_;
  Random random_;
  SequenceId next_ = 1;
  std::map<SequenceId, Sequence> in_model_;
  std::set<std::uint64_t> computed_;
};

TEST(EnginePrefix, IsOnlyWhatWasComputedWhateverHappens) {
  for (const PrefixCaching how : {PrefixCaching::blocks, PrefixCaching::slots}) {
    for (const Batching batching : {Batching::continuous, Batching::static_batches}) {
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        EngineSettings settings = caching(how, 1'500);
        settings.batching = batching;
        settings.max_batch = 5;
        settings.prefill_budget = 128;
        settings.speculative_tokens = seed % 2 == 0 ? 3 : 0;
        RandomEngine engine(settings, seed);
        for (int i = 0; i < 500; ++i) engine.act();
        engine.run_dry();
      }
    }
  }
}

}  // namespace
}  // namespace weir::lab::engine
