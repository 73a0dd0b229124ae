#include "metrics/compare/pairs/sameness.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/bench/greedy_answers.hpp"
#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::pairs {
namespace {

constexpr std::uint32_t never = samples::unknown_count;

class SamenessTest : public testing::Test {
 protected:
  /// A greedy request of 600 bytes, 150 tokens, whose control and candidate leave the primary's text at these
  /// checkpoints.
  void add(std::uint32_t control, std::uint32_t candidate) {
    const samples::Sample primary = whole(samples.primary(++at * second));
    leave(samples.shadow(primary, "ctrl0", "fp16", "control"), control);
    leave(samples.shadow(primary), candidate);
  }
  samples::Sample& whole(samples::Sample& sample) const {
    sample.greedy = true;
    sample.output_tokens = 150;
    sample.output_chars = 600;
    return sample;
  }
  samples::Sample& leave(samples::Sample& sample, std::uint32_t checkpoint) const {
    whole(sample).same_text = checkpoint == never;
    sample.common_prefix_bytes = checkpoint == never ? 600 : checkpoint;
    return sample;
  }
  comparison::Comparison comparison() { return compare(samples, options_of(samples)); }
  Sameness found() { return comparison().sameness; }

  TwinSamples samples;
  int at = 0;
};

TEST_F(SamenessTest, CountsWhoLeavesFirst) {
  add(never, never);
  add(never, 128);  // b
  add(128, never);  // a
  add(128, 64);     // b
  add(64, 128);     // a
  add(64, 64);
  add(0, 0);
  add(64, 0);  // b
  const Sameness one = found();
  EXPECT_TRUE(one.control);
  EXPECT_EQ(one.compared, 8u);
  EXPECT_EQ(one.first_a, 2u);
  EXPECT_EQ(one.first_b, 3u);
  EXPECT_EQ(one.hazard_ratio(), 1.5);
  EXPECT_EQ(one.a.requests, 6u);
  EXPECT_EQ(one.b.requests, 6u);
  EXPECT_EQ(one.a.at_start, 1u);
  EXPECT_EQ(one.b.at_start, 2u);
  // Of 600 bytes and 150 tokens, 64 bytes are 16 tokens.
  EXPECT_NEAR(one.a.tokens, 2 * 150 + 16 * (2 + 2 + 1 + 1 + 0 + 1), 1e-9);
  EXPECT_NEAR(one.b.tokens, 2 * 150 + 16 * (2 + 1 + 2 + 1 + 0 + 0), 1e-9);
  EXPECT_NEAR(*one.b.per_thousand_tokens(), 6000 / one.b.tokens, 1e-9);
  EXPECT_EQ(one.word, Alike::unknown);
}

TEST_F(SamenessTest, GreedyRequestsThatAllAnsweredCountAlone) {
  add(64, 0);
  samples.each()[2].greedy = false;
  add(64, 0);
  samples.each()[4].same_text = -1;
  add(64, 0);
  samples.each()[8].served = false;
  samples.each()[8].outcome = Outcome::timeout;
  EXPECT_EQ(found().compared, 0u);
  EXPECT_EQ(found().hazard_ratio(), std::nullopt);
  EXPECT_EQ(found().b.per_thousand_tokens(), std::nullopt);
  add(64, 0);
  EXPECT_EQ(found().compared, 1u);
}

TEST_F(SamenessTest, ATextThatDiffersNobodyKnowsWhereLeavesLast) {
  add(64, 128);
  samples.each()[1].common_prefix_bytes = never;
  EXPECT_EQ(found().first_b, 1u);
  samples.each()[2].common_prefix_bytes = never;
  EXPECT_EQ(found().first_a + found().first_b, 0u);
}

// The evidence by the integrals of statistics, over a naive count of the same requests.
TEST_F(SamenessTest, EvidenceIsThatOfTheFirstToLeave) {
  std::mt19937_64 random(1);
  statistics::Evidence differs(0.5, 3), alike(0.4, 3), start(0.5, 3);
  for (int i = 0; i < 300; ++i) {
    const auto any = [&] { return random() % 4 ? never : static_cast<std::uint32_t>(64 * (random() % 3)); };
    const std::uint32_t control = any(), candidate = any();
    add(control, candidate);
    if (control != candidate) {
      differs.add(candidate < control);
      alike.add(control < candidate);
    }
    if ((control == 0) != (candidate == 0)) start.add(candidate == 0);
  }
  EXPECT_EQ(found().differs, differs.highest());
  EXPECT_EQ(found().alike, alike.highest());
  EXPECT_EQ(found().from_start, start.highest());
}

TEST(SamenessWords, EqualSidesAreTheSameAndTwiceTheHazardDiffers) {
  int same = 0, false_words = 0, found = 0, told_same = 0, templates = 0;
  constexpr int runs = 40;
  for (std::uint64_t seed = 0; seed < runs; ++seed) {
    const bench::FirstWords equal(bench::GreedyAnswers({2, 1, 0}, 1500, seed), 1500);
    same += equal.same > 0;
    false_words += equal.differs > 0;
    const bench::FirstWords twice(bench::GreedyAnswers({2, 2, 0}, 1000, seed), 1000);
    found += twice.differs > 0;
    told_same += twice.same > 0;
    templates += bench::FirstWords(bench::GreedyAnswers({0.5, 1, 0.3}, 200, seed), 200).differs > 0;
  }
  EXPECT_GE(same, 0.9 * runs);
  EXPECT_LE(false_words, 0.05 * runs + 2);
  EXPECT_GE(found, 0.95 * runs);
  EXPECT_LE(told_same, 1);
  EXPECT_GE(templates, 0.95 * runs) << "30 % differ from the start";
}

TEST_F(SamenessTest, WithoutAControlTextNeverDiffers) {
  for (int i = 0; i < 100; ++i) {
    samples::Sample& primary = whole(samples.primary(++at * second));
    leave(samples.shadow(primary), 64);
  }
  const auto one = comparison();
  EXPECT_FALSE(one.sameness.control);
  EXPECT_EQ(one.sameness.compared, 100u);
  EXPECT_EQ(one.sameness.first_b, 100u);
  EXPECT_EQ(one.sameness.differs, 1);
  EXPECT_EQ(one.sameness.word, Alike::unknown);
}

TEST_F(SamenessTest, ThousandsOfEqualTextsAreTheSameWithoutAControlToo) {
  for (int i = 0; i < 2300; ++i) {
    samples::Sample& primary = whole(samples.primary(++at * second));
    leave(samples.shadow(primary), never);
  }
  EXPECT_EQ(found().word, Alike::unknown) << found().excess();
  for (int i = 0; i < 100; ++i) {
    samples::Sample& primary = whole(samples.primary(++at * second));
    leave(samples.shadow(primary), never);
  }
  EXPECT_EQ(found().word, Alike::same) << found().excess();
}

TEST_F(SamenessTest, WhatIsNotGreedyDiffersByHowItEndsAndWhatItCalls) {
  const auto answers = [&](int count, std::string_view of_primary, std::string_view of_shadow) {
    for (int i = 0; i < count; ++i) {
      samples::Sample& primary = samples.primary(++at * second);
      primary.finish_reason = samples.names.of(of_primary);
      samples.shadow(primary).finish_reason = samples.names.of(of_shadow);
    }
  };
  for (const auto* reason : {"tool_calls", "length"}) {
    for (const bool more : {true, false}) {
      samples.each().clear();
      answers(200, reason, reason);
      EXPECT_EQ(found().word, Alike::unknown);
      answers(11, more ? "stop" : reason, more ? reason : "stop");  // e = 341.25
      EXPECT_EQ(found().word, Alike::unknown) << reason;
      answers(1, more ? "stop" : reason, more ? reason : "stop");  // e = 630
      EXPECT_EQ(found().word, Alike::differs) << reason;
      EXPECT_EQ(found().compared, 0u);
    }
  }
}

TEST_F(SamenessTest, CallsAreSetAgainstThoseOfTheControl) {
  for (int i = 0; i < 12; ++i) {
    add(never, never);
    samples.each()[samples.each().size() - 2].same_tools = 1;
    samples.each().back().same_tools = 0;
  }
  EXPECT_EQ(found().same_calls.only_a(), 12u);
  EXPECT_EQ(found().word, Alike::differs);
  comparison::Options changed = options_of(samples);
  samples.each().back().same_tools = -1;
  EXPECT_EQ(compare(samples, changed).sameness.same_calls.pairs(), 11u);
  EXPECT_EQ(compare(samples, changed).sameness.word, Alike::unknown);
}

}  // namespace
}  // namespace weir::metrics::compare::pairs
