// Misses of an objective: what makes them a verdict, and what forbids one.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using pairs::Fault;
using statistics::Finding;

/// Half an hour of pairs, one a second. Both miss an objective of 0.3 s in 5 % of them; b alone misses it in `more` of
/// 40 pairs besides, and a alone in `fewer`.
TwinSamples misses(int more, int fewer = 0, int minutes = 30) {
  TwinSamples samples;
  for (int i = 0; i < minutes * 60; ++i) {
    samples::Sample& a = samples.primary(i * second);
    const int at = i % 40;
    if (at % 20 == 0 || (at % 20 == 7 && at / 20 < fewer)) a.ttft = 1;
    samples::Sample& b = samples.shadow(a);
    if (at % 20 == 0 || (at % 20 != 7 && at % 5 == 1 && at / 5 < more)) b.ttft = 1;
  }
  return samples;
}

Options with_objective(TwinSamples& samples) {
  Options options = open_options_of(samples);
  options.slo = config::Slo{"fast", "chat", {}, config::Seconds(0.3), {}, {}};
  return options;
}

/// Ten hours of one configuration that does not drift.
History steady() {
  History history;
  history.paired = true;
  for (auto& series : history.minutes) series = {statistics::Minutes(600, 0.0)};
  return history;
}

FaultVerdict slo_of(TwinSamples samples) { return *compare(samples, with_objective(samples)).fault_of(Fault::slo); }

TEST(Objective, IsJudgedOnlyWhereThereIsOne) {
  TwinSamples samples = misses(3);
  EXPECT_FALSE(compare(samples, open_options_of(samples)).fault_of(Fault::slo));
  const FaultVerdict slo = slo_of(samples);
  EXPECT_EQ(slo.pairs.both, 90u);
  EXPECT_EQ(slo.pairs.only_b, 135u);
  EXPECT_NEAR(slo.share_a(), 0.05, 1e-12);
  EXPECT_NEAR(slo.share_b(), 0.125, 1e-12);
  EXPECT_NEAR(slo.margin, 0.002 + 0.15 * std::sqrt(0.05 * 0.95), 1e-12) << "misses come in waves";
  EXPECT_EQ(slo.finding, Finding::worse);
}

/// Without a history two equal GPUs may drift apart, and the slower one misses more: up to twice as often.
TEST(Objective, LessThanTwiceTheMissesMayBeADrift) {
  TwinSamples half_more = misses(1);
  const FaultVerdict slo = slo_of(half_more);
  EXPECT_NEAR(slo.share_b(), 0.075, 1e-12);
  EXPECT_GE(slo.more_in_b, evidence_needed);
  EXPECT_EQ(slo.finding, Finding::inconclusive);
  Options options = with_objective(half_more);
  options.histories = {steady()};
  EXPECT_EQ(compare(half_more, options).fault_of(Fault::slo)->finding, Finding::worse);
  EXPECT_EQ(slo_of(misses(1, 0, 45)).finding, Finding::worse) << "forty minutes show that they do not drift";
  EXPECT_EQ(slo_of(misses(0, 2)).finding, Finding::better);
  EXPECT_EQ(slo_of(misses(0)).finding, Finding::not_worse);
}

/// A request that one side alone did not finish is a miss of it.
TEST(Objective, SpeaksAgainstASideThatWasSparedLoadAlone) {
  for (const bool drops : {false, true}) {
    for (const auto& [samples, finding] :
         {std::pair(misses(5), Finding::worse), std::pair(misses(0, 2), Finding::better)}) {
      TwinSamples some = samples;
      for (std::size_t i = 7; drops && i < some.each().size(); i += 120) some.drop(some.each()[i], "in_flight");
      Options options = with_objective(some);
      options.histories = {steady()};
      const FaultVerdict slo = *compare(some, options).fault_of(Fault::slo);
      EXPECT_EQ(slo.finding, drops && finding == Finding::better ? Finding::inconclusive : finding);
      options.same_load = false;
      EXPECT_EQ(compare(some, options).fault_of(Fault::slo)->finding, Finding::inconclusive);
    }
  }
}

TEST(Objective, OfASplitTakesConversations) {
  for (const int conversations : {40, 400}) {
    TwinSamples samples;
    for (int i = 0; i < 3600; ++i) {
      const auto group = static_cast<std::uint64_t>(1 + i * conversations / 3600);
      const bool of_b = group % 2 == 0;
      samples::Sample& one = samples.primary(i * second, of_b ? "gpu1" : "gpu0", of_b ? "fp8" : "fp16");
      one.group = group;
      one.ttft_client = one.ttft = of_b && i > 1800 ? 1 : 0.1f;
    }
    const FaultVerdict slo = *compare(samples, with_objective(samples)).fault_of(Fault::slo);
    EXPECT_EQ(slo.pairs.pairs, static_cast<std::uint64_t>(conversations - 2)) << "the window is that of both";
    EXPECT_EQ(slo.pairs.only_b, static_cast<std::uint64_t>(conversations / 4 - 1));
    EXPECT_EQ(slo.finding, conversations < 100 ? Finding::inconclusive : Finding::worse);
  }
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
