#include <gtest/gtest.h>

#include <cmath>

#include "metrics/compare/pairs/faults.hpp"
#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::pairs {
namespace {

/// Two answers to one request, for a test to change. The shadow is b.
class FaultsTest : public testing::Test {
 protected:
  struct Both {
    samples::Sample &a, &b;
  };
  Both pair() {
    samples::Sample& primary = samples.primary(++at * second);
    return {primary, samples.shadow(primary)};
  }
  static void fail(samples::Sample& sample, Outcome outcome) {
    sample.outcome = outcome;
    sample.served = false;
  }
  comparison::FaultVerdict of(Fault fault) { return *compare(samples, options_of(samples)).fault_of(fault); }

  TwinSamples samples;
  int at = 0;
};

TEST_F(FaultsTest, AFailureIsTheReplicas) {
  struct Case {
    Outcome a, b;
    bool judged, failed_a, failed_b;
  };
  using enum Outcome;
  for (const auto& c :
       {Case{ok, ok, true, false, false}, Case{ok, upstream_error, true, false, true},
        Case{ok, upstream_reset, true, false, true}, Case{ok, truncated, true, false, true},
        Case{ok, timeout, true, false, true}, Case{ok, replica_refused, true, false, true},
        Case{timeout, ok, true, true, false}, Case{timeout, timeout, true, true, true},
        Case{ok, client_error, true, false, true}, Case{client_error, ok, true, true, false},
        Case{client_error, client_error, true, false, false}, Case{client_error, upstream_error, true, true, true},
        Case{ok, client_abort, false, false, false}, Case{client_abort, ok, false, false, false},
        Case{ok, rejected, false, false, false}, Case{bad_request, ok, false, false, false}}) {
    samples.each().clear();
    const Both both = pair();
    if (c.a != ok) fail(both.a, c.a);
    if (c.b != ok) fail(both.b, c.b);
    const auto found = of(Fault::failed).pairs;
    SCOPED_TRACE(testing::Message() << name_of(c.a) << " and " << name_of(c.b));
    EXPECT_EQ(found.pairs, c.judged ? 1u : 0u);
    EXPECT_EQ(found.both, c.failed_a && c.failed_b ? 1u : 0u);
    EXPECT_EQ(found.only_a, c.failed_a && !c.failed_b ? 1u : 0u);
    EXPECT_EQ(found.only_b, c.failed_b && !c.failed_a ? 1u : 0u);
    EXPECT_EQ(of(Fault::empty).pairs.pairs, c.a == ok && c.b == ok ? 1u : 0u);
  }
}

TEST_F(FaultsTest, AClientThatLeftAfterTheEndTellsOfTheReplica) {
  const Both both = pair();
  both.a.outcome = both.b.outcome = Outcome::client_abort;
  EXPECT_EQ(of(Fault::failed).pairs.pairs, 1u);
  EXPECT_EQ(of(Fault::failed).pairs.both, 0u);
}

TEST_F(FaultsTest, ADroppedShadowHasNoFault) {
  samples.drop(pair().b, "busy");
  EXPECT_EQ(of(Fault::failed).pairs.pairs, 0u);
}

TEST_F(FaultsTest, EmptyAndCutAnswersAreWhole) {
  pair().b.outcome = Outcome::ok_empty;
  for (const auto* reason : {"length", "max_tokens", "limit", "max_output_tokens", "stop", "LENGTH", ""})
    pair().a.finish_reason = samples.names.of(reason);
  EXPECT_EQ(of(Fault::empty).pairs.only_b, 1u);
  EXPECT_EQ(of(Fault::empty).pairs.pairs, 8u);
  EXPECT_EQ(of(Fault::length).pairs.only_a, 4u);
  EXPECT_EQ(of(Fault::length).pairs.pairs, 8u);
  EXPECT_EQ(of(Fault::failed).pairs.only_b, 0u);
}

TEST_F(FaultsTest, ToolsAreToldByThePairsThatCallAny) {
  const auto add = [&](std::int8_t of_primary, std::int8_t of_shadow) {
    const Both both = pair();
    both.b.primary_valid_tools = of_primary;
    both.b.valid_tools = of_shadow;
  };
  add(1, 1);
  add(1, 0);
  add(1, 0);
  add(0, 1);
  add(-1, -1);
  const auto found = of(Fault::tools).pairs;
  EXPECT_EQ(found.pairs, 4u);
  EXPECT_EQ(found.only_b, 2u);
  EXPECT_EQ(found.only_a, 1u);
}

TEST_F(FaultsTest, WhatSharesACauseIsOneEvent) {
  // A crash takes twelve requests of b in two seconds.
  for (int i = 0; i < 1800; ++i) pair();
  for (std::size_t i = 0; i < 12; ++i) fail(samples.each()[2 * (301 + i) + 1], Outcome::upstream_reset);
  const auto crash = of(Fault::failed);
  EXPECT_LE(crash.causes.b, 2);
  EXPECT_EQ(crash.finding, statistics::Finding::inconclusive);
  EXPECT_LE(crash.difference.low, 0) << "the interval does not show what the evidence does not";
  // The same number, one every two minutes, is a rate.
  for (auto& sample : samples.each()) {
    sample.outcome = Outcome::ok;
    sample.served = true;
  }
  for (std::size_t i = 0; i < 12; ++i) fail(samples.each()[2 * (10 + 120 * i) + 1], Outcome::upstream_reset);
  const auto rate = of(Fault::failed);
  EXPECT_EQ(rate.causes.b, 12);
  EXPECT_EQ(rate.finding, statistics::Finding::worse);
  EXPECT_GT(rate.difference.low, 0);
}

/// Fourteen failures are a verdict by single pairs, and seven half minutes are none: those of one share a cause. Nor
/// are twelve half minutes of one outage, in an hour.
TEST_F(FaultsTest, NeitherPairsThatFailTogetherNorALongOutageAreAVerdict) {
  for (int i = 0; i < 14 * 60; ++i)
    if (const Both both = pair(); i / 60 % 2 == 0 && i % 60 < 2) fail(both.b, Outcome::timeout);
  EXPECT_EQ(of(Fault::failed).pairs.only_b, 14u);
  EXPECT_EQ(of(Fault::failed).causes.b, 7);
  EXPECT_EQ(of(Fault::failed).finding, statistics::Finding::inconclusive);
  samples.each().clear();
  at = -1;
  for (int i = 0; i < 60 * 60; ++i)
    if (const Both both = pair(); i >= 1800 && i < 2160 && i % 30 == 0) fail(both.b, Outcome::timeout);
  EXPECT_EQ(of(Fault::failed).causes.b, 12);
  EXPECT_LT(of(Fault::failed).more_in_b, comparison::evidence_needed);
  EXPECT_NE(of(Fault::failed).finding, statistics::Finding::worse);
}

/// A candidate that answers nothing is found by the same ten half minutes.
TEST_F(FaultsTest, WhoFailsAlwaysIsFoundAfterFiveMinutes) {
  for (int i = 0; i < 6 * 60; ++i) fail(pair().b, Outcome::timeout);
  const auto dead = of(Fault::failed);
  EXPECT_GE(dead.causes.b, 12);
  EXPECT_EQ(dead.finding, statistics::Finding::worse);
  EXPECT_GT(dead.difference.low, 0);
}

/// The interval and the evidence do not contradict each other.
TEST_F(FaultsTest, TheDifferenceHoldsNothingUntilThereIsEvidence) {
  // One failure of b in each minute.
  for (int causes = 1; causes <= 12; ++causes) {
    for (int i = 0; i < 60; ++i)
      if (const Both both = pair(); i == 30) fail(both.b, Outcome::timeout);
    const auto failed = of(Fault::failed);
    EXPECT_EQ(failed.causes.b, causes);
    const bool told = failed.more_in_b >= comparison::evidence_needed;
    EXPECT_EQ(told, causes >= 10) << failed.more_in_b;
    EXPECT_EQ(failed.finding, told ? statistics::Finding::worse : statistics::Finding::inconclusive);
    EXPECT_EQ(failed.difference.low > 0, told) << causes;
  }
  comparison::Options changed = options_of(samples);
  std::swap(changed.a, changed.b);
  EXPECT_EQ(compare(samples, changed).fault_of(Fault::failed)->finding, statistics::Finding::better);
}

TEST_F(FaultsTest, TheMarginIsWiderWhereAFaultIsFrequent) {
  for (int i = 0; i < 3000; ++i) pair();
  EXPECT_DOUBLE_EQ(of(Fault::failed).margin, 0.002);
  EXPECT_EQ(of(Fault::failed).finding, statistics::Finding::not_worse) << "3000 pairs without a fault";
  for (std::size_t i = 0; i < 30; ++i) {
    fail(samples.each()[200 * i], Outcome::timeout);
    fail(samples.each()[200 * i + 1], Outcome::timeout);
  }
  EXPECT_NEAR(of(Fault::failed).margin, 0.002 + 0.12 * std::sqrt(0.01 * 0.99), 1e-12);
}

TEST_F(FaultsTest, AsLongAsItIsOpenItSaysWhichWindowWouldTell) {
  for (int i = 0; i < 1200; ++i) pair();
  const auto open = of(Fault::failed);
  EXPECT_EQ(open.finding, statistics::Finding::inconclusive);
  ASSERT_TRUE(open.needs_s);
  for (int i = 1200; i < 1.05 * *open.needs_s; ++i) pair();
  EXPECT_EQ(of(Fault::failed).finding, statistics::Finding::not_worse);
}

Divergence divergence_of(TwinSamples& samples) { return compare(samples, options_of(samples)).divergence; }

void expect(const Same& same, std::uint64_t equal, std::uint64_t compared) {
  EXPECT_EQ(same.same, equal);
  EXPECT_EQ(same.compared, compared);
}

TEST(Divergence, EqualTextCountsForGreedyRequestsAlone) {
  TwinSamples samples;
  for (int i = 0; i < 10; ++i) {
    samples::Sample& shadow = samples.shadow(samples.primary(i * second));
    shadow.greedy = i < 6;
    shadow.same_text = static_cast<std::int8_t>(i == 0 ? -1 : i % 2);  // Of 1 to 5, three are equal.
    if (i != 3) shadow.common_prefix_bytes = static_cast<std::uint32_t>(64 * i);
  }
  const TextLikeness likeness = divergence_of(samples).text_b;
  expect(likeness.text, 3, 5);
  EXPECT_EQ(likeness.common_prefix_bytes, 192);  // The median of 64, 128, 256 and 320.
  expect(divergence_of(samples).text_a.text, 0, 0);
  comparison::Options changed = options_of(samples);
  std::swap(changed.a, changed.b);
  expect(compare(samples, changed).divergence.text_a.text, 3, 5);
  expect(compare(samples, changed).divergence.text_b.text, 0, 0);
}

TEST(Divergence, AControlShowsHowFarAConfigurationDiffersFromItself) {
  TwinSamples samples;
  for (int i = 0; i < 10; ++i) {
    const samples::Sample& primary = samples.primary(i * second);
    samples::Sample& control = samples.shadow(primary, "control0", "fp16", "same");
    samples::Sample& candidate = samples.shadow(primary);
    control.greedy = candidate.greedy = true;
    control.same_text = i != 0;
    candidate.same_text = i < 4;
  }
  const Divergence divergence = divergence_of(samples);
  expect(divergence.text_a.text, 9, 10);
  expect(divergence.text_b.text, 4, 10);
  EXPECT_FALSE(divergence.text_b.common_prefix_bytes);
}

TEST(Divergence, CallsOfToolsAreAPairedTable) {
  TwinSamples samples;
  const auto add = [&](int count, std::string_view a, std::string_view b, std::int8_t same) {
    for (int i = 0; i < count; ++i) {
      samples::Sample& primary = samples.primary(second);
      primary.finish_reason = samples.names.of(a);
      samples::Sample& shadow = samples.shadow(primary);
      shadow.finish_reason = samples.names.of(b);
      shadow.same_tools = same;
    }
  };
  add(5, "tool_calls", "tool_calls", 1);
  add(4, "tool_use", "tool_use", 0);
  add(3, "tool_calls", "stop", 0);
  add(2, "stop", "function_call", 0);
  add(7, "stop", "length", -1);
  const Divergence divergence = divergence_of(samples);
  EXPECT_EQ(divergence.tool_calls.both, 9u);
  EXPECT_EQ(divergence.tool_calls.only_a, 3u);
  EXPECT_EQ(divergence.tool_calls.only_b, 2u);
  EXPECT_EQ(divergence.tool_calls.neither, 7u);
  EXPECT_EQ(divergence.tool_calls.count(), 21u);
  expect(divergence.tools, 5, 14);
  expect(divergence.finish_reason, 9, 21);
}

TEST(Divergence, CallsWithValidArgumentsAreAPairedTable) {
  TwinSamples samples;
  const auto add = [&](int count, std::int8_t primary_valid, std::int8_t valid) {
    for (int i = 0; i < count; ++i) {
      samples::Sample& shadow = samples.shadow(samples.primary(second));
      shadow.primary_valid_tools = primary_valid;
      shadow.valid_tools = valid;
    }
  };
  add(5, 1, 1);
  add(4, 1, 0);
  add(3, 0, 1);
  add(2, 0, 0);
  add(7, -1, -1);
  const Divergence divergence = divergence_of(samples);
  EXPECT_EQ(divergence.valid_tools.both, 5u);
  EXPECT_EQ(divergence.valid_tools.only_a, 4u);
  EXPECT_EQ(divergence.valid_tools.only_b, 3u);
  EXPECT_EQ(divergence.valid_tools.neither, 2u);
}

TEST(Divergence, StatusAndPromptTokensAreComparedWhereBothAreKnown) {
  TwinSamples samples;
  for (int i = 0; i < 10; ++i) {
    samples::Sample& shadow = samples.shadow(samples.primary(i * second));
    if (i == 0) shadow.status = 0;
    if (i == 1) shadow.status = 500;
    if (i == 2) shadow.prompt_tokens = samples::unknown_count;
    if (i == 3) shadow.prompt_tokens = 590;
    if (i == 4) shadow.prompt_tokens = 410;
  }
  const Divergence divergence = divergence_of(samples);
  expect(divergence.status, 8, 9);
  expect(divergence.prompt_tokens, 7, 9);
  EXPECT_DOUBLE_EQ(divergence.prompt_tokens_differ, 180.0 / 4500);
}

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
