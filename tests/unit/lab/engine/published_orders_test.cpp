// The orders that published comparisons report hold for the presets, in the engine model's own time. The cards' order
// by TTFT and TPOT and the linear prefill are in engine_model_test.cpp, the knee is in
// tests/unit/lab/experiment/sweep_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "lab/engine/engine_model.hpp"

namespace weir::lab::engine {
namespace {

/// Returns how many seconds a set of prompts takes if so many of them run at once. The next is sent as one ends.
double set_time(const EngineSettings& settings, std::uint64_t prompts, std::uint64_t at_once, std::uint64_t input = 550,
                std::uint64_t output = 150) {
  EngineModel engine(settings, 1);
  SequenceId next = 1;
  const auto send = [&] {
    if (next > prompts) return;
    EXPECT_TRUE(engine.submit({next, input, output}));
    ++next;
  };
  for (std::uint64_t i = 0; i < at_once; ++i) send();
  nanoseconds now{0};
  while (const auto step = engine.begin_step()) {
    now += *step;
    std::size_t ended = 0;
    for (const TokenEvent& event : engine.end_step()) ended += event.last ? 1 : 0;
    for (; ended > 0; --ended) send();
  }
  return std::chrono::duration<double>(now).count();
}

/// Returns the time of a set with so many drafted tokens, half of which are accepted.
double drafting(EngineSettings settings, std::uint32_t drafts, std::uint64_t at_once) {
  settings.speculative_tokens = drafts;
  settings.acceptance = 0.5;
  return set_time(settings, 8 * at_once, at_once);
}

class PublishedOrders : public testing::TestWithParam<EnginePreset> {};

/// Drafted tokens are computed whether they are right or not: free while the batch is small, dear once it is not.
TEST_P(PublishedOrders, SpeculationHelpsWithOneOrTwoTokensAndHurtsWithEight) {
  const EngineSettings& card = GetParam().settings;
  for (const std::uint64_t at_once : {20u, 24u}) {
    const double without = drafting(card, 0, at_once);
    EXPECT_LT(drafting(card, 1, at_once), without) << at_once;
    EXPECT_LT(drafting(card, 2, at_once), without) << at_once;
    EXPECT_GT(drafting(card, 8, at_once), without) << at_once;
  }
}

TEST_P(PublishedOrders, SpeculationHelpsAlwaysWhereOneUserIsAlone) {
  const EngineSettings& card = GetParam().settings;
  for (const std::uint32_t drafts : {1u, 2u, 8u}) EXPECT_LT(drafting(card, drafts, 1), drafting(card, 0, 1)) << drafts;
}

/// An engine with all of a card's memory against two that share the card: each of them has half the memory and, as
/// both read the weights, half the speed.
TEST_P(PublishedOrders, TwoHalvesOfACardAreNoBetterThanOneWhole) {
  const EngineSettings& whole = GetParam().settings;
  EngineSettings half = whole;
  half.speed = whole.speed / 2;
  half.kv_tokens = whole.kv_tokens / 2;
  for (const std::uint64_t at_once : {2u, 8u, 32u, 64u, 128u, 256u}) {
    const double one = set_time(whole, 4 * at_once, at_once);
    const double two = set_time(half, 2 * at_once, at_once / 2);  // Each half gets half of the prompts.
    EXPECT_GT(two, one) << at_once;
  }
}

/// A static batch waits for its longest answer. With answers of one length it would wait for nothing.
TEST_P(PublishedOrders, ContinuousBatchingBeatsStaticBatches) {
  const auto mixed = [](EngineSettings settings, Batching batching) {
    settings.batching = batching;
    settings.max_batch = 16;
    EngineModel engine(settings, 1);
    for (SequenceId id = 1; id <= 64; ++id) engine.submit({id, 550, 20 + 40 * (id % 8)});
    nanoseconds now{0};
    while (const auto step = engine.begin_step()) {
      now += *step;
      engine.end_step();
    }
    return std::chrono::duration<double>(now).count();
  };
  const EngineSettings& card = GetParam().settings;
  EXPECT_LT(mixed(card, Batching::continuous), 0.9 * mixed(card, Batching::static_batches));
}

INSTANTIATE_TEST_SUITE_P(Presets, PublishedOrders, testing::ValuesIn(engine_presets().begin(), engine_presets().end()),
                         [](const auto& preset) { return "card_" + std::string(preset.param.name); });

}  // namespace
}  // namespace weir::lab::engine
