// Sides that did not run at the same time, and windows that go beyond the requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "metrics/compare/comparison/conclusion.hpp"
#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Metric;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// A request of `config` every two seconds of [from_s, to_s), with a TTFT of about `ttft` and a TPOT of a fifth of it.
void run(TwinSamples& samples, std::string_view config, double from_s, double to_s, float ttft) {
  for (double at_s = from_s; at_s < to_s; at_s += 2) {
    const auto at_us = static_cast<std::int64_t>(at_s * static_cast<double>(second));
    samples::Sample& sample = samples.primary(at_us, std::string(config) + "-replica", config);
    const double noise = uniform(static_cast<std::uint64_t>(at_us) + config.size() * 7, 3) - 0.5;
    sample.ttft = sample.ttft_client = ttft * static_cast<float>(1 + 0.1 * noise);
    sample.tpot = sample.ttft / 5;
  }
}

TEST(Apart, SidesAreIfAndOnlyIfTheirTimesDoNotOverlap) {
  std::mt19937 random(8);
  int apart = 0;
  for (int round = 0; round < 40; ++round) {
    TwinSamples samples;
    const auto any = [&](unsigned most) { return static_cast<double>(random() % most); };
    const double from_a = any(4000), from_b = any(4000);
    const double to_a = from_a + 100 + any(1500), to_b = from_b + 100 + any(1500);
    run(samples, "fp16", from_a, to_a, 0.1F);
    run(samples, "fp8", from_b, to_b, 0.12F);
    Options options = open_options_of(samples);
    if (round % 2 == 0) options.from_us = -86'400 * second;
    const Comparison found = compare(samples, options);
    const double last_a = from_a + 2 * std::ceil((to_a - from_a) / 2) - 2;
    const double last_b = from_b + 2 * std::ceil((to_b - from_b) / 2) - 2;
    ASSERT_EQ(found.apart.has_value(), last_a < from_b || last_b < from_a) << round;
    EXPECT_EQ(has_note(found, "no_overlap"), found.apart.has_value());
    if (!found.apart) continue;
    ++apart;
    EXPECT_EQ(found.state, State::too_few);
    EXPECT_EQ(found.requests_a, static_cast<std::uint64_t>(last_a - from_a) / 2 + 1);
    EXPECT_EQ(found.requests_b, static_cast<std::uint64_t>(last_b - from_b) / 2 + 1);
    EXPECT_FALSE(found.needs_s) << "a longer window would not do";
    for (const Verdict& verdict : found.verdicts) {
      EXPECT_TRUE(verdict.withheld && !verdict.interval) << name_of(verdict.metric);
      EXPECT_EQ(verdict.finding, statistics::Finding::inconclusive);
      if (verdict.metric != Metric::ttft) continue;
      EXPECT_NEAR(*verdict.value_a, 0.1, 0.003);
      EXPECT_NEAR(*verdict.value_b, 0.12, 0.003);
      EXPECT_NEAR(*verdict.estimate, *verdict.value_b / *verdict.value_a - 1, 1e-9);
      EXPECT_THAT(verdict.why, EndsWith("but no verdict: the sides did not run at the same time."));
    }
    EXPECT_THAT(conclusion_of(found, gate_of(found)),
                StartsWith("fp16 and fp8 did not run at the same time: TPOT "));
  }
  EXPECT_GT(apart, 8);
  EXPECT_LT(apart, 32);
}

TEST(Apart, OnlyTheTimeThatWasAskedForCounts) {
  TwinSamples samples;
  run(samples, "fp16", 0, 4000, 0.1F);
  run(samples, "fp8", 2000, 6000, 0.1F);
  Options options = open_options_of(samples);
  EXPECT_FALSE(compare(samples, options).apart);
  options.from_us = 1500 * second;
  options.to_us = 5000 * second;
  EXPECT_FALSE(compare(samples, options).apart);
  run(samples, "later", 9000, 9100, 0.1F);
  options.b = samples.config("later");
  options.from_us = 0;
  options.to_us = 10'000 * second;
  ASSERT_TRUE(compare(samples, options).apart);
  EXPECT_EQ(compare(samples, options).apart->a.to_us, 3998 * second + 1);
  options.to_us = 9000 * second;
  EXPECT_FALSE(compare(samples, options).apart) << "one side has no request in that time";
}

/// The control drifts from day to day by half; what differs beside it is told all the same.
TEST(Apart, AControlBesideBothGivesVerdicts) {
  constexpr double day = 86'400;
  TwinSamples samples;
  run(samples, "fp16", 0, 1800, 0.1F);
  run(samples, "steady", 0, 1800, 0.1F);
  run(samples, "fp8", day, day + 1800, 0.18F);
  run(samples, "steady", day, day + 1800, 0.15F);
  const Options options = open_options_of(samples);
  const Comparison found = compare(samples, options);
  ASSERT_TRUE(found.apart);
  EXPECT_EQ(found.apart->control, "steady");
  EXPECT_EQ(found.state, State::final);
  const Verdict& ttft = verdict_of(found, Metric::ttft);
  EXPECT_EQ(ttft.finding, statistics::Finding::worse);
  EXPECT_NEAR(*ttft.estimate, 0.2, 0.01) << "1.8 over 1.5, and not over 1";
  EXPECT_LT(ttft.interval->low, 0.2);
  EXPECT_GT(ttft.interval->high, 0.2);
  EXPECT_FALSE(ttft.withheld);
  EXPECT_THAT(ttft.why, HasSubstr("by steady, ten blocks beside each"));
  EXPECT_THAT(sentence_of(found, "no_overlap"), HasSubstr("steady ran beside both"));
  EXPECT_THAT(conclusion_of(found, gate_of(found)), StartsWith("fp8 is slower: "));

  // The effects are those of the two comparisons with the control, and their errors add as squares.
  const auto beside = [&](std::string_view side, double from_s) {
    Options one = options;
    one.a = samples.config("steady");
    one.b = samples.config(side);
    one.from_us = static_cast<std::int64_t>(from_s) * second;
    one.to_us = static_cast<std::int64_t>(from_s + 1798) * second + 1;
    return *verdict_of(compare(samples, one), Metric::ttft).effect;
  };
  const auto a = beside("fp16", 0), b = beside("fp8", day);
  EXPECT_NEAR(ttft.effect->mean, b.mean - a.mean, 1e-9);
  EXPECT_NEAR(ttft.effect->standard_error, std::hypot(a.standard_error, b.standard_error), 1e-9);
  EXPECT_GE(ttft.effect->degrees, 9 - 1e-9);
  EXPECT_LE(ttft.effect->degrees, 18 + 1e-9);
}

TEST(Apart, AControlThatWasBesideOneSideAloneGivesNone) {
  TwinSamples samples;
  run(samples, "fp16", 0, 1800, 0.1F);
  run(samples, "steady", 0, 1800, 0.1F);
  run(samples, "fp8", 86'400, 88'200, 0.18F);
  const Comparison found = compare(samples, open_options_of(samples));
  ASSERT_TRUE(found.apart);
  EXPECT_EQ(found.apart->control, "");
  EXPECT_FALSE(verdict_of(found, Metric::ttft).interval);
}

/// Two rows of an experiment that take turns of `turn_s` seconds, as `weir-lab experiment --log` writes them.
TwinSamples turns_of(double turn_s, double all_s) {
  TwinSamples samples;
  for (double at_s = 0; at_s + 2 * turn_s <= all_s; at_s += 2 * turn_s) {
    run(samples, "fp16", at_s, at_s + turn_s, 0.1F);
    run(samples, "fp8", at_s + turn_s, at_s + 2 * turn_s, 0.12F);
  }
  return samples;
}

TEST(Window, BlocksAreTenthsOfTheTimeThatHasRequests) {
  TwinSamples samples = turns_of(30, 1800);
  Options options = open_options_of(samples);
  options.from_us = 0;
  const Comparison exact = compare(samples, options);
  EXPECT_EQ(verdict_of(exact, Metric::ttft).finding, statistics::Finding::worse);
  for (const std::int64_t hours : {1, 24, 24 * 300}) {
    options.from_us = -hours * 3600 * second;
    const Comparison early = compare(samples, options);
    EXPECT_EQ(early.window.from_us, exact.window.from_us);
    EXPECT_EQ(early.window.to_us, exact.window.to_us);
    EXPECT_EQ(early.requests_a, exact.requests_a);
    const Verdict &one = verdict_of(early, Metric::ttft), &other = verdict_of(exact, Metric::ttft);
    EXPECT_EQ(one.finding, other.finding);
    EXPECT_EQ(one.interval->low, other.interval->low);
  }
}

/// A window that was declared within the requests keeps its beginning, though its first request comes later.
TEST(Window, ADeclaredBeginningWithinTheRequestsStays) {
  TwinSamples samples = turns_of(30, 1800);
  run(samples, "earlier", -100, -90, 0.1F);
  Options options = open_options_of(samples);
  options.from_us = -50 * second;
  options.to_us = 1800 * second;
  EXPECT_EQ(compare(samples, options).window.from_us, -50 * second);
}

TEST(Window, SidesThatTakeLongTurnsAreToldSo) {
  TwinSamples longer = turns_of(300, 1800), shorter = turns_of(30, 1800);
  Options options = open_options_of(longer);
  options.from_us = 0;
  const Comparison found = compare(longer, options);
  EXPECT_GT(found.one_sided_blocks, 0U);
  EXPECT_THAT(sentence_of(found, "take_turns"), HasSubstr("of ten blocks of 180 s one side alone has requests."));
  EXPECT_THAT(conclusion_of(found, gate_of(found)), HasSubstr("Let the sides take shorter turns"));
  EXPECT_EQ(compare(shorter, options).one_sided_blocks, 0U);
  TwinSamples rare;
  run(rare, "fp16", 0, 1800, 0.1F);
  run(rare, "fp8", 1000, 1010, 0.1F);
  EXPECT_EQ(compare(rare, options).one_sided_blocks, 0U) << "few requests are no turns";
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
