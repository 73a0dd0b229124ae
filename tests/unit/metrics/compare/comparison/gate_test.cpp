#include "metrics/compare/comparison/gate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace weir::metrics::compare::comparison {
namespace {

using pairs::Fault;
using statistics::Figure;
using statistics::Finding;
using testing::ElementsAre;
using testing::StartsWith;

/// A comparison of streams in which every figure and fault has this finding.
Comparison all(Finding finding) {
  Comparison comparison;
  comparison.mode = pairs::Mode::mirrored;
  comparison.a = "fp16";
  comparison.b = "fp8";
  for (std::size_t i = 0; i < statistics::figure_count; ++i) {
    Verdict verdict;
    verdict.figure = static_cast<Figure>(i);
    verdict.count = verdict.figure == Figure::e2e ? 0 : 100;
    verdict.value_a = verdict.value_b = 1;
    verdict.estimate = 0;
    verdict.finding = finding;
    comparison.verdicts.push_back(verdict);
  }
  for (std::size_t i = 0; i < pairs::judged_faults; ++i) {
    FaultVerdict fault;
    fault.fault = static_cast<Fault>(i);
    fault.finding = finding;
    fault.pairs.pairs = 10;
    comparison.faults.push_back(fault);
  }
  return comparison;
}

Verdict& in(Comparison& comparison, Figure figure) { return comparison.verdicts[static_cast<std::size_t>(figure)]; }

TEST(Gate, PassesIfAllIsSafe) {
  for (const auto finding : {Finding::better, Finding::equivalent, Finding::not_worse}) {
    Comparison comparison = all(finding);
    for (auto& fault : comparison.faults) fault.finding = Finding::not_worse;
    EXPECT_EQ(gate_of(comparison).word, Gate::pass);
  }
  EXPECT_EQ(gate_of(all(Finding::worse)).word, Gate::worse);
  EXPECT_EQ(gate_of(all(Finding::inconclusive)).word, Gate::unknown);
  EXPECT_EQ(gate_of({}).word, Gate::unknown) << "nothing is no reason to pass";
}

TEST(Gate, EveryFigureIsAGuardrailAndNamedByItsWord) {
  for (std::size_t i = 0; i < statistics::figure_count; ++i) {
    const auto figure = static_cast<Figure>(i);
    if (figure == Figure::e2e) continue;
    for (const auto& [finding, word] :
         {std::pair(Finding::worse, Gate::worse), std::pair(Finding::inconclusive, Gate::unknown)}) {
      if (figure == Figure::output_tokens && finding == Finding::worse) continue;
      Comparison comparison = all(Finding::not_worse);
      in(comparison, figure).finding = finding;
      const GateResult result = gate_of(comparison);
      EXPECT_EQ(result.word, word) << name_of(figure);
      const auto& sentences = word == Gate::worse ? result.worse : result.unknown;
      EXPECT_THAT(sentences, ElementsAre(StartsWith(std::string(name_of(figure)) + ": ")));
    }
  }
}

TEST(Gate, EveryFaultIsAGuardrailIfARequestTellsOfIt) {
  for (std::size_t i = 0; i < pairs::judged_faults; ++i) {
    Comparison comparison = all(Finding::not_worse);
    FaultVerdict& fault = comparison.faults[i];
    const std::string name(name_of(fault.fault));
    fault.finding = Finding::worse;
    EXPECT_THAT(gate_of(comparison).worse, ElementsAre(StartsWith(name + ": of 10 pairs")));
    fault.finding = Finding::inconclusive;
    EXPECT_THAT(gate_of(comparison).unknown, ElementsAre(StartsWith(name + ": of 10 pairs")));
    fault.finding = Finding::better;
    EXPECT_EQ(gate_of(comparison).word, Gate::pass);
    fault.finding = Finding::inconclusive;
    fault.pairs = {};
    const bool failures = fault.fault == Fault::failed;
    EXPECT_EQ(gate_of(comparison).word, failures ? Gate::unknown : Gate::pass) << name;
  }
}

TEST(Gate, DoesNotPassWhereAnswersOfAnotherShadowAreLeftOut) {
  Comparison comparison = all(Finding::not_worse);
  comparison.pairs = 1000;
  comparison.repeated = 10;
  EXPECT_EQ(gate_of(comparison).word, Gate::pass);
  comparison.repeated = 11;
  EXPECT_EQ(gate_of(comparison).word, Gate::unknown);
  EXPECT_THAT(gate_of(comparison).unknown, ElementsAre(StartsWith("shadows: one side has several answers")));
}

TEST(Gate, AsksForE2eWhereFewerThanHalfAreStreamed) {
  struct Case {
    std::uint64_t streamed, whole;
    bool ttft, e2e;
  };
  for (const auto& c : {Case{100, 0, true, false}, Case{100, 99, true, false}, Case{100, 100, true, false},
                        Case{100, 101, true, true}, Case{0, 100, false, true}, Case{0, 0, true, false}}) {
    Comparison comparison = all(Finding::not_worse);
    in(comparison, Figure::ttft).count = c.streamed;
    in(comparison, Figure::e2e).count = c.whole;
    in(comparison, Figure::e2e).finding = Finding::inconclusive;
    EXPECT_EQ(gate_of(comparison).word, c.e2e ? Gate::unknown : Gate::pass) << c.streamed << ' ' << c.whole;
    in(comparison, Figure::e2e).finding = Finding::not_worse;
    in(comparison, Figure::tpot_geomean).finding = Finding::inconclusive;
    EXPECT_EQ(gate_of(comparison).word, c.ttft ? Gate::unknown : Gate::pass) << c.streamed << ' ' << c.whole;
    in(comparison, Figure::e2e).finding = Finding::worse;
    EXPECT_EQ(gate_of(comparison).word, Gate::worse) << "what is worse is worse wherever it is";
  }
}

TEST(Gate, DoesNotAskForWhatFewAnswersHave) {
  const std::array of_streams{Figure::ttft, Figure::tpot, Figure::ttft_geomean, Figure::tpot_geomean};
  for (const auto& [streamed, word] :
       {std::pair(3U, Gate::pass), std::pair(90U, Gate::pass), std::pair(91U, Gate::unknown)}) {
    Comparison comparison = all(Finding::not_worse);
    in(comparison, Figure::e2e).count = 9000;
    for (const auto figure : of_streams) {
      in(comparison, figure).count = streamed;
      in(comparison, figure).finding = Finding::inconclusive;
    }
    EXPECT_EQ(gate_of(comparison).word, word) << streamed;
  }
  // Streams of which none has sixteen tokens, on either side or on one.
  Comparison comparison = all(Finding::not_worse);
  for (const auto figure : {Figure::tpot, Figure::tpot_geomean}) {
    in(comparison, figure).count = 0;
    in(comparison, figure).finding = Finding::inconclusive;
  }
  EXPECT_EQ(gate_of(comparison).word, Gate::pass);
  comparison.had[static_cast<std::size_t>(pairs::Quantity::tpot)].a = 50;
  EXPECT_EQ(gate_of(comparison).word, Gate::unknown);
}

/// An option such as --margin 0.3 calls much worse candidates equivalent.
TEST(Gate, AWideMarginDoesNotHideWhatIsWorse) {
  Comparison comparison = all(Finding::not_worse);
  Verdict& tpot = in(comparison, Figure::tpot);
  tpot.finding = Finding::equivalent;
  tpot.effect.worse_margin = std::log1p(0.05);
  tpot.effect.margin = {std::log1p(-0.3), std::log1p(0.3)};
  EXPECT_EQ(gate_of(comparison).word, Gate::unknown) << "the interval is not known";
  tpot.effect.sequence = statistics::Sequence{0.2, 30, 0.001, 9, 0};
  EXPECT_EQ(gate_of(comparison).word, Gate::unknown);
  tpot.effect.sequence->mean = 0;
  EXPECT_EQ(gate_of(comparison).word, Gate::pass);
  tpot.effect.sequence->mean = 0.2;
  tpot.effect.margin.high = std::log1p(0.05);
  EXPECT_EQ(gate_of(comparison).word, Gate::pass) << "the finding decides";
}

TEST(Gate, DoesNotPassIfAnswersDiffer) {
  Comparison comparison = all(Finding::not_worse);
  for (const auto alike : {pairs::Alike::same, pairs::Alike::unknown}) {
    comparison.answers.word = alike;
    EXPECT_EQ(gate_of(comparison).word, Gate::pass);
    EXPECT_EQ(gate_of(comparison).answers, "");
  }
  comparison.answers = {pairs::Alike::differs, "their text"};
  const GateResult result = gate_of(comparison);
  EXPECT_EQ(result.word, Gate::unknown);
  EXPECT_EQ(result.but_for_answers, Gate::pass);
  EXPECT_THAT(result.answers, StartsWith("answers: they differ (their text)"));
  EXPECT_THAT(result.unknown, ElementsAre(result.answers));
  for (const auto finding : {Finding::inconclusive, Finding::worse}) {
    in(comparison, Figure::tpot).finding = finding;
    EXPECT_EQ(gate_of(comparison).word, finding == Finding::worse ? Gate::worse : Gate::unknown);
    EXPECT_EQ(gate_of(comparison).but_for_answers, gate_of(comparison).word);
  }
}

/// Answers of pairs that are longer differ, which is said once; of a split nothing says so.
TEST(Gate, OtherLengthsAreSaidOnceAndNeverPass) {
  Comparison comparison = all(Finding::not_worse);
  in(comparison, Figure::output_tokens).finding = Finding::longer;
  comparison.answers = {pairs::Alike::differs, "they are longer"};
  EXPECT_EQ(gate_of(comparison).unknown.size(), 1u);
  comparison.answers = {};
  comparison.mode = pairs::Mode::split;
  EXPECT_THAT(gate_of(comparison).unknown, ElementsAre(StartsWith("output_tokens: ")));
}

TEST(Gate, AChangeForTheWorseIsWorseIfItIsByAFifth) {
  for (const auto& [by, after, word] : {std::tuple(0.3, 0.2, Gate::worse), std::tuple(0.3, 0.19, Gate::unknown),
                                        std::tuple(0.03, 0.03, Gate::unknown), std::tuple(-0.3, 0.5, Gate::pass)}) {
    Comparison comparison = all(Finding::not_worse);
    comparison.changes = {{Figure::tpot, 60'000'000, by, after}};
    const GateResult result = gate_of(comparison);
    EXPECT_EQ(result.word, word) << by << ' ' << after;
    if (word != Gate::pass)
      EXPECT_THAT(word == Gate::worse ? result.worse : result.unknown,
                  ElementsAre(StartsWith("changed: since 00:01:00 TPOT of fp8 beside fp16 is ")));
  }
}

TEST(Gate, TheWordFollowsFromTheSentences) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 1000; ++round) {
    Comparison comparison = all(Finding::not_worse);
    const auto any = [&] { return static_cast<Finding>(random() % statistics::finding_names.size()); };
    for (auto& verdict : comparison.verdicts)
      if (random() % 6 == 0) verdict.finding = any();
    for (auto& fault : comparison.faults)
      if (random() % 6 == 0) fault.finding = any();
    const GateResult result = gate_of(comparison);
    EXPECT_EQ(result.word == Gate::worse, !result.worse.empty());
    EXPECT_EQ(result.word == Gate::pass, result.worse.empty() && result.unknown.empty());
  }
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
