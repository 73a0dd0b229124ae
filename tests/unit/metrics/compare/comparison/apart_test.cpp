// Sides that did not run at the same time, and windows that go beyond the requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "metrics/compare/comparison/conclusion.hpp"
#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Figure;
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
      EXPECT_EQ(verdict.bar, Bar::apart) << name_of(verdict.figure);
      if (verdict.figure == Figure::ttft) {
        EXPECT_NEAR(verdict.value_a.value_or(0), 0.1, 0.003);
        EXPECT_NEAR(verdict.value_b.value_or(0), 0.12, 0.003);
      }
      EXPECT_EQ(verdict.finding, statistics::Finding::inconclusive);
      EXPECT_THAT(why(verdict, found), EndsWith("the sides did not run at the same time."));
    }
    EXPECT_THAT(conclusion_of(found, gate_of(found)),
                StartsWith("Run fp16 and fp8 at the same time: they did not run together, so there is no verdict"));
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

/// Two rows of an experiment that take turns of `turn_s` seconds, as `weir-lab experiment --log` writes them.
TwinSamples turns_of(double turn_s, double all_s) {
  TwinSamples samples;
  for (double at_s = 0; at_s + 2 * turn_s <= all_s; at_s += 2 * turn_s) {
    run(samples, "fp16", at_s, at_s + turn_s, 0.1F);
    run(samples, "fp8", at_s + turn_s, at_s + 2 * turn_s, 0.12F);
  }
  return samples;
}

TEST(Window, IsOfTheTimeThatHasRequests) {
  TwinSamples samples = turns_of(30, 1800);
  Options options = open_options_of(samples);
  options.from_us = 0;
  const Comparison exact = compare(samples, options);
  for (const std::int64_t hours : {1, 24, 24 * 300}) {
    options.from_us = -hours * 3600 * second;
    const Comparison early = compare(samples, options);
    EXPECT_EQ(early.window.from_us, exact.window.from_us);
    EXPECT_EQ(early.window.to_us, exact.window.to_us);
    EXPECT_EQ(early.requests_a, exact.requests_a);
    const Verdict &one = verdict_of(early, Figure::ttft), &other = verdict_of(exact, Figure::ttft);
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
  EXPECT_EQ(found.minutes, 0);
  EXPECT_THAT(sentence_of(found, "take_turns"), HasSubstr("0 minutes have requests of both, and only they count."));
  EXPECT_FALSE(has_note(compare(shorter, options), "take_turns"));
  EXPECT_EQ(compare(shorter, options).minutes, 30);
  EXPECT_EQ(verdict_of(compare(shorter, options), Figure::ttft).finding, statistics::Finding::worse);
  TwinSamples rare;
  run(rare, "fp16", 0, 1800, 0.1F);
  run(rare, "fp8", 1000, 1010, 0.1F);
  EXPECT_FALSE(has_note(compare(rare, options), "take_turns")) << "few requests are no turns";
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
