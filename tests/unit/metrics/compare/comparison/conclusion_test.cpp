// The first line of a report, and the gate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "metrics/compare/comparison/conclusion.hpp"
#include "metrics/compare/comparison/why.hpp"
#include "tests/golden.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using pairs::Fault;
using statistics::Figure;
using statistics::Finding;
using testing::StartsWith;

/// Twenty minutes with a control, in which TPOT and TTFT are not worse, no request failed, and answers are the same.
Comparison compared() {
  Comparison made;
  made.state = State::running;
  made.mode = pairs::Mode::control;
  made.a = "fp16";
  made.b = "fp8";
  made.window = {0, 1'200'000'000};
  made.minutes = 20;
  made.answers.word = pairs::Alike::same;
  made.sameness.compared = 500;
  for (const auto& [figure, a, b] :
       {std::tuple(Figure::ttft, 0.163, 0.164), std::tuple(Figure::tpot, 0.0272, 0.0272),
        std::tuple(Figure::output_tokens, 104.0, 104.0), std::tuple(Figure::stalls, 2.0, 3.0)}) {
    Verdict verdict;
    verdict.figure = figure;
    verdict.count = 900;
    verdict.value_a = a;
    verdict.value_b = b;
    verdict.estimate = figure == Figure::stalls ? b - a : b / a - 1;
    verdict.finding = Finding::not_worse;
    verdict.effect.sequence = statistics::Sequence{.minutes = 20};
    made.verdicts.push_back(verdict);
  }
  FaultVerdict failed;
  failed.pairs = {900, 0, 0, 0};
  failed.finding = Finding::not_worse;
  made.faults.push_back(failed);
  return made;
}

Verdict& of(Comparison& comparison, Figure figure) {
  return *std::ranges::find(comparison.verdicts, figure, &Verdict::figure);
}

void set(Comparison& comparison, Figure figure, Finding finding, double a, double b) {
  Verdict& verdict = of(comparison, figure);
  verdict.finding = finding;
  verdict.value_a = a;
  verdict.value_b = b;
  verdict.estimate = figure == Figure::stalls ? b - a : b / a - 1;
}

std::string line(const Comparison& of) { return conclusion_of(of, gate_of(of)); }

/// Each conclusion with a line above that says what is special in the comparison.
TEST(Conclusion, ReadsAsItsGoldenFile) {
  std::string all;
  const auto show = [&](const std::string& what, const auto& change) {
    Comparison one = compared();
    change(one);
    all += "# " + what + "\n" + line(one) + "\n\n";
  };
  show("nothing is worse", [](auto&) {});
  const auto faster = [](auto& one) { set(one, Figure::tpot, Finding::better, 1.5, 1.2); };
  show("faster", faster);
  show("faster, without a control", [&](auto& one) {
    faster(one);
    one.mode = pairs::Mode::mirrored;
    one.answers.word = pairs::Alike::unknown;
  });
  show("faster, in a split", [&](auto& one) {
    faster(one);
    one.mode = pairs::Mode::split;
    one.answers.word = pairs::Alike::unknown;
  });
  show("how much slower it may be", [](auto& one) {
    of(one, Figure::ttft).interval = {-0.03, 0.074};
    of(one, Figure::tpot).interval = {-0.02, 0.03};
  });
  show("slower", [](auto& one) { set(one, Figure::tpot, Finding::worse, 0.0272, 0.0315); });
  for (const auto fault : {Fault::failed, Fault::empty, Fault::length, Fault::tools, Fault::slo})
    show("more faults", [&](auto& one) {
      one.faults[0].fault = fault;
      one.faults[0].finding = Finding::worse;
      one.faults[0].pairs = {1000, 10, 2, 90};
    });
  show("stalls", [](auto& one) { set(one, Figure::stalls, Finding::worse, 2, 40); });
  show("several are worse", [](auto& one) {
    set(one, Figure::stalls, Finding::worse, 2, 40);
    set(one, Figure::ttft, Finding::worse, 0.1, 0.2);
    one.faults[0].finding = Finding::worse;
  });
  const auto at = [](int minute) { return 1'764'000'000'000'000 + minute * 60'000'000LL; };
  for (const auto& [by, after] : {std::pair(0.246, 0.25), {0.246, 0.1}, {-0.2, 0.1}})
    show("a change by " + std::to_string(by) + ", " + std::to_string(after) + " after it",
         [&, by = by, after = after](auto& one) { one.changes = {{Figure::tpot, at(20), by, after}}; });
  for (const double of_second : {0.25, 0.3})
    show("of two changes the one that decides", [&](auto& one) {
      one.changes = {{Figure::ttft, at(0), 0.06, of_second == 0.3 ? 0.3 : 0.06}, {Figure::tpot, at(20), 0.24, 0.25}};
    });
  const auto open = [](auto& one) {
    of(one, Figure::tpot).finding = one.faults[0].finding = Finding::inconclusive;
    of(one, Figure::tpot).needs_s = 1861;
    one.faults[0].needs_s = 1500;
  };
  show("waiting tells", open);
  show("waiting tells of failures", [&](auto& one) {
    open(one);
    one.faults[0].pairs = {1000, 10, 2, 3};
  });
  show("it looks worse", [&](auto& one) {
    open(one);
    of(one, Figure::tpot).held_back = true;
    of(one, Figure::tpot).interval = {0.01, 0.12};
    of(one, Figure::tpot).estimate = 0.06;
  });
  for (const int minutes : {4, 0})
    show("after " + std::to_string(minutes) + " minutes", [&](auto& one) {
      open(one);
      one.minutes = minutes;
      one.window.to_us = 240'000'000;
      of(one, Figure::tpot).needs_s = one.faults[0].needs_s = 300;
    });
  for (const auto needs : {std::optional<double>(), std::optional(1200 + 86'401.0)})
    show("waiting tells nothing in a day", [&](auto& one) {
      set(one, Figure::stalls, Finding::inconclusive, 2, 40);
      of(one, Figure::stalls).needs_s = needs;
    });
  show("answers differ", [](auto& one) { one.answers = {pairs::Alike::differs, "their text"}; });
  const auto none = [](auto& one) {
    of(one, Figure::tpot).finding = Finding::inconclusive;
    of(one, Figure::tpot).needs_s = 3000;
  };
  for (const auto bar : {Bar::load_differs, Bar::spared_load})
    show("a bar", [&](auto& one) { none(one), of(one, Figure::tpot).bar = bar; });
  for (const auto& [a, b, minutes] : {std::tuple(80, 12, 20), {1, 1, 20}, {1, 1, 5}})
    show("few conversations in " + std::to_string(minutes) + " minutes",
         [&, a = a, b = b, minutes = minutes](auto& one) {
           none(one);
           of(one, Figure::tpot).bar = Bar::conversations;
           one.conversations_a = static_cast<std::uint64_t>(a);
           one.conversations_b = static_cast<std::uint64_t>(b);
           one.minutes = minutes;
         });
  show("neither side answers", [&](auto& one) { none(one), one.faults[0].pairs = {900, 900, 0, 0}; });
  show("a cold shadow", [&](auto& one) { none(one), one.unfilled = Unfilled{"fp8", 160'000, 79'000}; });
  show("nothing was mirrored", [&](auto& one) {
    none(one);
    one.dropped = {{"primary_waits", 600}, {"max_in_flight", 1200}};
  });
  show("not at the same time", [&](auto& one) { none(one), one.apart = Apart{}; });
  show("nothing streams", [](auto& one) {
    for (const Figure figure : {Figure::ttft, Figure::tpot}) {
      Verdict unknown;
      unknown.figure = figure;
      of(one, figure) = unknown;
    }
    Verdict e2e;
    e2e.figure = Figure::e2e;
    e2e.count = 900;
    e2e.value_a = 2;
    e2e.value_b = 2.1;
    e2e.estimate = 0.05;
    e2e.finding = Finding::not_worse;
    one.verdicts.push_back(e2e);
  });
  tests::expect_golden("conclusions.txt", all);
}

using testing::ElementsAre;

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
