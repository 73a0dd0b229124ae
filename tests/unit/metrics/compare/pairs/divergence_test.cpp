#include "metrics/compare/pairs/divergence.hpp"

#include <gtest/gtest.h>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::pairs {
namespace {

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

}  // namespace
}  // namespace weir::metrics::compare::pairs
