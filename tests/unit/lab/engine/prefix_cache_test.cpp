#include "lab/engine/prefix_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/engine/engine_model.hpp"
#include "lab/engine/engine_preset.hpp"

namespace weir::lab::engine {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

/// Returns the blocks of a prompt of `tokens` tokens, which parts from those with another `rest` behind `shared`
/// tokens.
std::vector<std::uint64_t> blocks_of(std::uint64_t tokens, std::uint64_t shared, std::uint64_t rest) {
  PromptBlocks blocks;
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

TEST(PrefixCache, FindsWhatAPromptSharesWithAnEarlierOne) {
  PrefixCache cache(1'000);
  EXPECT_EQ(cache.find(blocks_of(100, 50, 1)), 0u);
  cache.keep(blocks_of(100, 50, 1));
  EXPECT_EQ(cache.find(blocks_of(100, 50, 1)), 96u);
  EXPECT_EQ(cache.find(blocks_of(100, 50, 2)), 48u) << "50 tokens are three blocks and a part of one";
  EXPECT_EQ(cache.find(blocks_of(100, 0, 3)), 0u);
  PrefixCache none(0);
  none.keep(blocks_of(100, 50, 1));
  EXPECT_EQ(none.find(blocks_of(100, 50, 1)), 0u);
}

TEST(PrefixCache, ForgetsWhatWasUsedLongestAgoFromItsEnd) {
  PrefixCache cache(8 * prefix_block_tokens);
  const auto a = blocks_of(64, 0, 1), b = blocks_of(64, 0, 2), c = blocks_of(32, 0, 3);
  cache.keep(a);
  cache.keep(b);
  EXPECT_EQ(cache.find(a), 64u) << "both fit";
  cache.keep(c);
  EXPECT_EQ(cache.find(b), 32u) << "b was used before a, and its end has gone";
  EXPECT_EQ(cache.find(a), 64u);
  EXPECT_EQ(cache.find(c), 32u);
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
    settings_.prefix_cache_tokens = 10'000;
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

TEST(EngineWithPrefixes, ThereAreNoneWithoutACache) {
  const Sequence whole{1, 64, 2, blocks_of(64, 64, 1)};
  EXPECT_EQ(first_tokens(EngineSettings{}, {whole, whole})[1].second, 0u);
  for (const EnginePreset& preset : engine_presets()) EXPECT_EQ(preset.settings.prefix_cache_tokens, 0u) << preset.name;
}

TEST(EngineWithPrefixes, APromptThatWasAbortedIsNotKept) {
  EngineSettings settings;
  settings.prefix_cache_tokens = 1'000;
  EngineModel engine(settings, 1);
  const auto blocks = blocks_of(64, 64, 1);
  engine.submit({1, 64, 2, blocks});
  engine.begin_step();
  engine.abort(1);
  engine.end_step();
  engine.submit({2, 65, 2, blocks});
  engine.begin_step();
  EXPECT_EQ(engine.last_step_prefill_tokens(), 65u);
}

}  // namespace
}  // namespace weir::lab::engine
