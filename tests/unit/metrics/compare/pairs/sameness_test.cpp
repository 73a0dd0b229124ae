#include "metrics/compare/pairs/sameness.hpp"

#include <gtest/gtest.h>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::pairs {
namespace {

constexpr std::uint32_t never = samples::unknown_count;

class SamenessTest : public testing::Test {
 protected:
  /// A greedy request of 600 bytes, 150 tokens, whose control and candidate leave the primary's text at these
  /// checkpoints.
  void add(std::uint32_t control, std::uint32_t candidate, std::uint64_t group = 0) {
    samples::Sample& first = whole(samples.primary(++at * second));
    first.group = group != 0 ? group : static_cast<std::uint64_t>(1000 + at);
    const samples::Sample primary = first;
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
  comparison::Comparison compared() { return compare(samples, options_of(samples)); }

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
  const auto found = compared();
  const Sameness& one = found.sameness;
  EXPECT_TRUE(one.control);
  EXPECT_EQ(one.compared, 8u);
  EXPECT_EQ(one.first_a, 2u);
  EXPECT_EQ(one.first_b, 3u);
  EXPECT_EQ(one.hazard_ratio(), 1.5);
  EXPECT_EQ(one.a.at_start, 1u);
  EXPECT_EQ(one.b.at_start, 2u);
  EXPECT_EQ(one.at_start_b, 1u);
  // Of 600 bytes and 150 tokens, 64 bytes are 16 tokens.
  EXPECT_NEAR(one.a.tokens, 2 * 150 + 16 * (2 + 2 + 1 + 1 + 0 + 1), 1e-9);
  EXPECT_NEAR(*one.b.per_thousand_tokens(), 6000 / one.b.tokens, 1e-9);
  EXPECT_EQ(found.answers.word, Alike::unknown);
}

TEST_F(SamenessTest, APromptThatComesAgainCountsOnce) {
  for (int i = 0; i < 300; ++i) add(never, 64, 7);
  const auto repeated = compared();
  EXPECT_EQ(repeated.sameness.compared, 1u);
  EXPECT_EQ(repeated.sameness.repeated, 299u);
  EXPECT_EQ(repeated.sameness.first_b, 1u);
  EXPECT_NE(repeated.answers.word, Alike::differs);
}

TEST_F(SamenessTest, WithoutAConversationEqualLengthsAreOnePrompt) {
  for (int i = 0; i < 20; ++i) add(never, 64);
  for (auto& sample : samples.each()) {
    sample.group = 0;
    sample.prompt_tokens = 500u + static_cast<std::uint32_t>((sample.dispatched_us / second) % 2);
  }
  EXPECT_EQ(compared().sameness.compared, 2u);
}

TEST_F(SamenessTest, SaysThatAnswersDifferOrAreTheSame) {
  for (int i = 0; i < 12; ++i) add(never, 64);
  EXPECT_EQ(compared().answers.word, Alike::differs);
  EXPECT_EQ(compared().answers.why, "their text");
  for (int i = 0; i < 12; ++i) add(64, never);
  EXPECT_NE(compared().answers.word, Alike::differs) << "both leave as often";
  for (int i = 0; i < 3000; ++i) add(never, never);
  EXPECT_EQ(compared().answers.word, Alike::same);
}

TEST_F(SamenessTest, WithoutAControlTextTellsNothing) {
  for (int i = 0; i < 40; ++i) {
    samples::Sample& primary = whole(samples.primary(++at * second));
    primary.group = static_cast<std::uint64_t>(at);
    leave(samples.shadow(primary), 64);
  }
  const auto found = compared();
  EXPECT_FALSE(found.sameness.control);
  EXPECT_EQ(found.sameness.first_b, 40u);
  EXPECT_EQ(found.answers.word, Alike::unknown);
  EXPECT_NE(comparison::why(found.answers, found).find("start a control"), std::string::npos);
}

/// An answer that is not greedy differs by how it ends and what it calls, if that has causes enough.
TEST_F(SamenessTest, OtherEndsAndCallsDifferByTheirCauses) {
  const auto answers = [&](int count, std::string_view of_primary, std::string_view of_shadow) {
    for (int i = 0; i < count; ++i) {
      samples::Sample& primary = samples.primary((at += 30) * second);
      primary.finish_reason = samples.names.of(of_primary);
      samples.shadow(primary).finish_reason = samples.names.of(of_shadow);
    }
  };
  for (const std::string_view reason : {"tool_calls", "length"}) {
    for (const bool more : {true, false}) {
      samples.each().clear();
      answers(200, reason, reason);
      EXPECT_EQ(compared().answers.word, Alike::unknown);
      // Evidence of nine half minutes is between 40 and 400, and that of fifteen above.
      answers(9, more ? "stop" : reason, more ? reason : "stop");
      EXPECT_EQ(compared().answers.word, Alike::unknown) << reason;
      answers(6, more ? "stop" : reason, more ? reason : "stop");
      EXPECT_EQ(compared().answers.word, Alike::differs) << reason;
      EXPECT_EQ(compared().answers.why, reason == "length" ? "truncated answers" : "how often they call tools");
    }
  }
}

TEST_F(SamenessTest, CallsAreSetAgainstThoseOfTheControl) {
  for (int i = 0; i < 15; ++i) {
    at += 30;
    add(never, never);
    samples.each()[samples.each().size() - 2].same_tools = 1;
    samples.each().back().same_tools = 0;
  }
  EXPECT_EQ(compared().answers.why, "what they call tools with");
  for (samples::Sample& sample : samples.each()) sample.same_tools = -1;
  EXPECT_EQ(compared().answers.word, Alike::unknown);
}

TEST_F(SamenessTest, OnlyWholeGreedyAnswersOfAllCount) {
  add(64, 0);
  samples.each().back().greedy = false;
  add(64, 0);
  samples.each()[samples.each().size() - 2].served = false;
  add(64, 0);
  samples.each().back().same_text = -1;
  EXPECT_EQ(compared().sameness.compared, 0u);
}

}  // namespace
}  // namespace weir::metrics::compare::pairs
