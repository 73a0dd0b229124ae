#include "metrics/compare/comparison/strata.hpp"

#include <gtest/gtest.h>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

class Strata : public ::testing::Test {
 protected:
  /// An hour of pairs, one every ten seconds. Every other primary has a long prompt, and there b's TTFT is 20 % longer.
  Strata() {
    for (int i = 0; i < 360; ++i) {
      const bool long_prompt = i % 2 == 1;
      samples::Sample& a = samples_.primary(i * 10 * second);
      a.ttft *= 1 + 0.01f * static_cast<float>(uniform(static_cast<std::uint64_t>(i), 1));
      a.prompt_tokens = long_prompt ? 5000 : 1024;
      samples::Sample& b = samples_.shadow(a);
      b.prompt_tokens = samples::unknown_count;
      b.ttft = a.ttft * (long_prompt ? 1.2f : 1);
    }
  }

  std::vector<Stratum> by(StratifyBy what) {
    const auto all = samples_.all();
    std::vector<std::vector<const samples::Sample*>> held(2);
    for (const auto& sample : all) held[sample.role == Role::shadow].push_back(&sample);
    return strata_of(what, compare_pairs(all, samples_.names, options_of(samples_)), 60, held);
  }

  TwinSamples samples_;
};

TEST_F(Strata, HoldThePairsWhosePrimaryIsThere) {
  const auto strata = by(StratifyBy::prompt_size);
  ASSERT_EQ(strata.size(), 2u);
  EXPECT_EQ(strata[0].name, "prompt up to 1k tokens");
  EXPECT_EQ(strata[1].name, "4k to 16k");
  for (const auto& stratum : strata) {
    ASSERT_EQ(stratum.effects.size(), 2u);
    EXPECT_EQ(stratum.effects[0].metric, statistics::Metric::ttft);
    EXPECT_EQ(stratum.effects[0].count, 180u);
    EXPECT_TRUE(stratum.effects[0].interval);
    EXPECT_EQ(stratum.sides[0].requests, 180u);
    EXPECT_EQ(stratum.sides[1].requests, 0u) << "The shadow's tokens are not known.";
  }
  EXPECT_NEAR(*strata[0].effects[0].estimate, 0, 1e-6);
  EXPECT_NEAR(*strata[1].effects[0].estimate, 0.2, 1e-6);
}

TEST_F(Strata, HaveAnIntervalIfTheirOwnRequestsFitIntoTheBlocks) {
  for (samples::Sample& sample : samples_.each()) {
    if (sample.role == Role::primary && sample.prompt_tokens == 5000) sample.e2e = 181;
  }
  const auto strata = by(StratifyBy::prompt_size);
  EXPECT_TRUE(strata[0].effects[0].interval);
  EXPECT_FALSE(strata[1].effects[0].interval) << "A block is 360 s, less than twice as long.";
  EXPECT_TRUE(strata[1].effects[0].estimate);
}

TEST_F(Strata, OfASplitHoldTheRequestsOfEachSide) {
  for (samples::Sample& sample : samples_.each()) {
    if (sample.role == Role::shadow) sample.turn = 2;
    sample.role = Role::primary;
  }
  const auto strata = by(StratifyBy::turn);
  ASSERT_EQ(strata.size(), 2u);
  EXPECT_EQ(strata[0].name, "first turn");
  EXPECT_EQ(strata[1].name, "later turns");
  EXPECT_EQ(strata[0].sides[0].requests, 360u);
  EXPECT_EQ(strata[0].effects[0].count, 0u) << "All of b are later.";
  EXPECT_FALSE(strata[0].effects[0].estimate);

  for (samples::Sample& sample : samples_.each()) sample.turn = 1;
  const auto one = by(StratifyBy::turn);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].effects[0].count, 360u);
  EXPECT_TRUE(one[0].effects[0].interval);
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
