#include "metrics/compare/comparison/gate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Finding;
using statistics::Metric;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

/// A comparison in which every figure has the same finding, and every fault is told of by pairs.
Comparison all(Finding finding) {
  Comparison comparison;
  comparison.mode = pairs::Mode::mirrored;
  for (std::size_t i = 0; i < statistics::metric_count; ++i) {
    Verdict verdict;
    verdict.metric = static_cast<Metric>(i);
    verdict.finding = finding;
    verdict.why = "a sentence.";
    comparison.verdicts.push_back(verdict);
  }
  for (std::size_t i = 0; i < pairs::fault_count; ++i) {
    comparison.faults[i].fault = static_cast<pairs::Fault>(i);
    comparison.faults[i].finding = finding;
    comparison.faults[i].pairs.add(false, false);
  }
  return comparison;
}

Gate gate_with(Metric metric, Finding finding) {
  Comparison comparison = all(Finding::not_worse);
  comparison.verdicts[static_cast<std::size_t>(metric)].finding = finding;
  return gate_of(comparison).word;
}

TEST(Gate, PassesIfAllIsSafe) {
  for (const auto finding : {Finding::better, Finding::equivalent, Finding::not_worse})
    EXPECT_EQ(gate_of(all(finding)).word, Gate::pass);
  EXPECT_EQ(gate_of(all(Finding::worse)).word, Gate::worse);
  EXPECT_EQ(gate_of(all(Finding::inconclusive)).word, Gate::unknown);
}

TEST(Gate, EachMetricHasItsPart) {
  struct Case {
    Metric metric;
    Gate worse, unknown;
  };
  for (const auto& c :
       {Case{Metric::slo, Gate::worse, Gate::unknown}, Case{Metric::ttft, Gate::worse, Gate::unknown},
        Case{Metric::tpot, Gate::worse, Gate::unknown}, Case{Metric::output_tokens_mean, Gate::worse, Gate::unknown},
        Case{Metric::longest_gap, Gate::worse, Gate::pass}, Case{Metric::freezes, Gate::worse, Gate::pass},
        Case{Metric::ttft_minority, Gate::worse, Gate::pass}, Case{Metric::tpot_minority, Gate::worse, Gate::pass},
        Case{Metric::output_tokens, Gate::pass, Gate::pass}, Case{Metric::ttft_tail, Gate::pass, Gate::pass},
        Case{Metric::tpot_tail, Gate::pass, Gate::pass}}) {
    EXPECT_EQ(gate_with(c.metric, Finding::worse), c.worse) << name_of(c.metric);
    EXPECT_EQ(gate_with(c.metric, Finding::inconclusive), c.unknown) << name_of(c.metric);
    EXPECT_EQ(gate_with(c.metric, Finding::longer), c.unknown) << name_of(c.metric);
  }
}

TEST(Gate, EachFaultIsAGuardrailIfAPairTellsOfIt) {
  for (std::size_t i = 0; i < pairs::fault_count; ++i) {
    Comparison comparison = all(Finding::equivalent);
    comparison.faults[i].finding = Finding::worse;
    EXPECT_EQ(gate_of(comparison).word, Gate::worse) << i;
    comparison.faults[i].finding = Finding::inconclusive;
    EXPECT_EQ(gate_of(comparison).word, Gate::unknown) << i;
    comparison.faults[i].pairs = {};
    const bool failures = comparison.faults[i].fault == pairs::Fault::failed;
    EXPECT_EQ(gate_of(comparison).word, failures ? Gate::unknown : Gate::pass) << i;
    comparison.mode = pairs::Mode::split;
    EXPECT_EQ(gate_of(comparison).word, Gate::unknown) << i << ": nobody has counted failures";
    EXPECT_EQ(gate_of(comparison, SplitFaults::counted_elsewhere).word, Gate::pass) << i;
  }
}

/// A floor with few misses, or a wide --margin, calls much worse candidates equivalent.
TEST(Gate, AWideMarginDoesNotHideWhatIsWorse) {
  Comparison comparison = all(Finding::equivalent);
  Verdict& tpot = comparison.verdicts[static_cast<std::size_t>(Metric::tpot)];
  tpot.worse_margin = 0.05;
  tpot.margin = 0.30;
  EXPECT_EQ(gate_of(comparison).word, Gate::unknown) << "the interval is not known";
  tpot.interval = {.low = 0.15, .high = 0.20};
  const GateResult result = gate_of(comparison);
  EXPECT_EQ(result.word, Gate::unknown);
  EXPECT_THAT(result.unknown,
              ElementsAre("tpot: a sentence. That margin is wider than the +5.0 % that it may be worse by."));
  tpot.interval = {.low = -0.20, .high = 0.05};
  EXPECT_EQ(gate_of(comparison).word, Gate::pass);
  tpot.interval = {.low = 0.15, .high = 0.20};
  tpot.margin = 0.05;
  EXPECT_EQ(gate_of(comparison).word, Gate::pass) << "the finding decides";
}

/// Where few requests miss, points are known though the ratio is not.
TEST(Gate, PointsThatAreMetPassAWideMarginOfMisses) {
  Comparison comparison = all(Finding::equivalent);
  Verdict& misses = comparison.verdicts[static_cast<std::size_t>(Metric::slo)];
  misses.worse_margin = 0.20;
  misses.margin = 2;
  misses.interval = {.low = -0.5, .high = 1.5};
  misses.worse_points = 0.002;
  EXPECT_EQ(gate_of(comparison).word, Gate::unknown);
  const auto difference = [](double only_b) {
    return statistics::DifferenceOfShares({5, 10'000}, {only_b, 10'000}, true, {0.0, 0.0, 9});
  };
  misses.difference = difference(5);
  EXPECT_EQ(gate_of(comparison).word, Gate::pass);
  misses.difference = difference(20);
  EXPECT_EQ(gate_of(comparison).word, Gate::unknown);
}

TEST(Gate, DoesNotPassIfAnswersDiffer) {
  Comparison comparison = all(Finding::equivalent);
  for (const auto alike : {pairs::Alike::same, pairs::Alike::unknown}) {
    comparison.sameness.word = alike;
    EXPECT_EQ(gate_of(comparison).word, Gate::pass);
    EXPECT_EQ(gate_of(comparison).answers, "");
  }
  comparison.sameness.word = pairs::Alike::differs;
  const GateResult result = gate_of(comparison);
  EXPECT_EQ(result.word, Gate::unknown);
  EXPECT_EQ(result.but_for_answers, Gate::pass);
  EXPECT_THAT(result.answers, StartsWith("answers: they differ"));
  EXPECT_THAT(result.unknown, ElementsAre(result.answers));
  for (const auto finding : {Finding::inconclusive, Finding::worse}) {
    comparison.verdicts[0].finding = finding;
    const GateResult other = gate_of(comparison);
    EXPECT_EQ(other.word, finding == Finding::worse ? Gate::worse : Gate::unknown);
    EXPECT_EQ(other.but_for_answers, other.word);
    EXPECT_EQ(other.answers, result.answers);
  }
}

TEST(Gate, DoesNotPassOnNothing) {
  Comparison nothing;
  EXPECT_EQ(gate_of(nothing).word, Gate::unknown);
  nothing.mode = pairs::Mode::split;
  EXPECT_EQ(gate_of(nothing).word, Gate::unknown);
}

TEST(Gate, SaysWhichMetricAndWhy) {
  Comparison comparison = all(Finding::not_worse);
  comparison.verdicts[static_cast<std::size_t>(Metric::tpot)].finding = Finding::worse;
  comparison.verdicts[static_cast<std::size_t>(Metric::ttft)].finding = Finding::inconclusive;
  comparison.faults[0].finding = Finding::worse;
  const GateResult result = gate_of(comparison);
  EXPECT_THAT(result.worse, ElementsAre(StartsWith("failed: of 1 pairs"), "tpot: a sentence."));
  EXPECT_THAT(result.unknown, ElementsAre("ttft: a sentence."));
}

TEST(Gate, TheWordFollowsFromTheSentences) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 2000; ++round) {
    Comparison comparison = all(Finding::equivalent);
    for (auto& verdict : comparison.verdicts) {
      if (random() % 6 == 0) verdict.finding = static_cast<Finding>(random() % statistics::finding_names.size());
    }
    for (auto& fault : comparison.faults) {
      if (random() % 6 == 0) fault.finding = static_cast<Finding>(random() % statistics::finding_names.size());
    }
    const GateResult result = gate_of(comparison);
    EXPECT_EQ(result.word == Gate::worse, !result.worse.empty());
    EXPECT_EQ(result.word == Gate::pass, result.worse.empty() && result.unknown.empty());
  }
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
