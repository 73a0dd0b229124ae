// The first line of a report: one golden text of each kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "metrics/compare/comparison/conclusion.hpp"
#include "metrics/compare/comparison/why.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using pairs::Fault;
using statistics::Figure;
using statistics::Finding;
using testing::HasSubstr;
using testing::Not;
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

TEST(Conclusion, OfNothingWorse) {
  EXPECT_EQ(line(compared()),
            "May be promoted: fp8 is not worse than fp16: TTFT from 163.0 to 164.0 ms (+0.6 %), TPOT from 27.20 to "
            "27.20 "
            "ms (0.0 %); answers are the same.");
  auto faster = compared();
  set(faster, Figure::tpot, Finding::better, 1.5, 1.2);
  EXPECT_THAT(line(faster), StartsWith("May be promoted: fp8 is faster than fp16: TTFT from 163.0 to 164.0 ms (+0.6 "
                                       "%), "
                                       "TPOT from 1.500 to 1.200 s (-20.0 %)"));
  faster.mode = pairs::Mode::mirrored;
  faster.answers.word = pairs::Alike::unknown;
  EXPECT_THAT(line(faster), StartsWith("May be promoted, if its answers are as good: fp8 is faster"));
  EXPECT_THAT(line(faster), HasSubstr("; answers were not compared, which takes a control."));
  faster.mode = pairs::Mode::split;
  EXPECT_THAT(line(faster), StartsWith("May be promoted: "));
  EXPECT_THAT(line(faster), Not(HasSubstr("answers")));
}

TEST(Conclusion, OfNothingWorseSaysHowMuchSlowerItMayBe) {
  auto equal = compared();
  of(equal, Figure::ttft).interval = {-0.03, 0.074};
  of(equal, Figure::tpot).interval = {-0.02, 0.03};
  EXPECT_THAT(line(equal), StartsWith("May be promoted: fp8 is not worse than fp16, at most 7.4 % slower: TTFT"));
}

TEST(Conclusion, OfASlowerCandidateNamesWhatIsWorseFirst) {
  auto slower = compared();
  set(slower, Figure::tpot, Finding::worse, 0.0272, 0.0315);
  EXPECT_EQ(line(slower),
            "Do not promote fp8: it is slower: TPOT from 27.20 to 31.50 ms (+15.8 %), TTFT from 163.0 to 164.0 ms "
            "(+0.6 %); answers are the same.");
}

TEST(Conclusion, HasAWordForEachKindOfWorse) {
  struct Row {
    Fault fault;
    const char* word;
  };
  for (const auto& [fault, word] :
       {Row{Fault::failed, "fails more often"}, Row{Fault::empty, "answers with nothing more often"},
        Row{Fault::length, "runs into the limit of tokens more often"},
        Row{Fault::tools, "calls tools wrongly more often"}, Row{Fault::slo, "misses the objective more often"}}) {
    auto one = compared();
    one.faults[0].fault = fault;
    one.faults[0].finding = Finding::worse;
    one.faults[0].pairs = {1000, 10, 2, 90};
    EXPECT_THAT(line(one), StartsWith("Do not promote fp8: it " + std::string(word) + ": " +
                                      std::string(word_for(fault)) + " from 1.20 to 10.00 %, TTFT"));
  }
  auto stands = compared();
  set(stands, Figure::stalls, Finding::worse, 2, 40);
  EXPECT_THAT(line(stands),
              StartsWith("Do not promote fp8: it stands still longer: stalls from 2 to 40 s per 1000 requests, TTFT"));
  stands.faults[0].finding = Finding::worse;
  set(stands, Figure::ttft, Finding::worse, 0.1, 0.2);
  EXPECT_THAT(line(stands), StartsWith("Do not promote fp8: it fails more often, is slower and stands still longer: "));
}

TEST(Conclusion, OfAChangeForTheWorse) {
  auto changed = compared();
  changed.changes = {{Figure::tpot, 1'764'000'000'000'000 + 20 * 60'000'000LL, 0.246, 0.25}};
  EXPECT_THAT(line(changed), StartsWith("Do not promote fp8: it became slower at 16:20 (TPOT +24.6 % since then): "
                                        "TTFT"));
  changed.changes[0].after = 0.1;
  EXPECT_THAT(line(changed),
              StartsWith("Do not promote yet: fp8 became worse at 16:20 (TPOT +24.6 % since then); find out what "
                         "happened, "
                         "and compare again from there (--from): TTFT"));
  changed.changes[0].by = -0.2;
  EXPECT_THAT(line(changed), StartsWith("May be promoted"));
}

TEST(Conclusion, OfTwoChangesForTheWorseNamesTheOneThatDecides) {
  auto changed = compared();
  const auto at = [](int minute) { return 1'764'000'000'000'000 + minute * 60'000'000LL; };
  changed.changes = {{Figure::ttft, at(0), 0.06, 0.06}, {Figure::tpot, at(20), 0.24, 0.25}};
  EXPECT_THAT(line(changed), StartsWith("Do not promote fp8: it became slower at 16:20 (TPOT +24.0 % since then): "));
  changed.changes[0].after = 0.3;
  EXPECT_THAT(line(changed), StartsWith("Do not promote fp8: it became slower at 16:00 (TTFT +6.0 % since then): "));
}

TEST(Conclusion, SaysHowLongToWait) {
  auto open = compared();
  of(open, Figure::tpot).finding = Finding::inconclusive;
  of(open, Figure::tpot).needs_s = 1861;
  open.faults[0].finding = Finding::inconclusive;
  open.faults[0].needs_s = 1500;
  EXPECT_THAT(line(open),
              StartsWith("Wait 12 min more: not known yet whether fp8 is worse than fp16 in TPOT, and too few "
                         "requests yet to rule out failed requests, of which fp8 alone had none: TTFT"));
  open.faults[0].pairs = {1000, 10, 2, 3};
  EXPECT_THAT(line(open), HasSubstr("whether fp8 is worse than fp16 in failed requests and TPOT: "));
  open.faults[0].pairs = {1000, 0, 0, 0};
  of(open, Figure::tpot).held_back = true;
  of(open, Figure::tpot).interval = {0.01, 0.12};
  of(open, Figure::tpot).estimate = 0.06;
  EXPECT_THAT(line(open), StartsWith("Wait 12 min more: fp8 looks worse than fp16 in TPOT, which is not sure yet, and "
                                     "too few requests"));
  // Who has seen four minutes waits for ten at least.
  open.minutes = 4;
  open.window.to_us = 240'000'000;
  of(open, Figure::tpot).needs_s = open.faults[0].needs_s = 300;
  EXPECT_THAT(line(open), StartsWith("Wait 6 min more: it is too early to tell, which takes 10 minutes"));
  open.minutes = 0;
  EXPECT_THAT(line(open), StartsWith("Wait for requests of both sides: "));
}

TEST(Conclusion, DoesNotLetAnybodyWaitForWhatWaitingDoesNotTell) {
  auto open = compared();
  set(open, Figure::stalls, Finding::inconclusive, 2, 40);
  EXPECT_THAT(line(open), StartsWith("Look before you promote: fp8 is or may be worse than the limit in stalls, "
                                     "and waiting alone will not tell: TTFT"));
  EXPECT_THAT(line(open), HasSubstr("stalls from 2 to 40 s per 1000 requests"));
  of(open, Figure::stalls).needs_s = 1200 + 86'401;
  EXPECT_THAT(line(open), StartsWith("Look before you promote")) << "a day is too long";
}

TEST(Conclusion, OfAnswersThatDiffer) {
  auto other = compared();
  other.answers = {pairs::Alike::differs, "their text"};
  EXPECT_EQ(line(other),
            "Look at the answers of fp8 before you promote: they differ from those of fp16: TTFT from 163.0 to 164.0 "
            "ms "
            "(+0.6 %), TPOT from 27.20 to 27.20 ms (0.0 %); answers differ: their text.");
}

TEST(Conclusion, SaysWhatToChangeWhereWaitingIsInVain) {
  auto none = compared();
  of(none, Figure::tpot).finding = Finding::inconclusive;
  of(none, Figure::tpot).needs_s = 3000;
  const auto with_bar = [&](Bar bar) {
    auto one = none;
    of(one, Figure::tpot).bar = bar;
    return one;
  };
  EXPECT_THAT(line(with_bar(Bar::load_differs)), StartsWith("Mirror all requests of one replica (twin): the sides"));
  EXPECT_THAT(line(with_bar(Bar::spared_load)), StartsWith("Find out why one side lacks answers: "));
  auto split = with_bar(Bar::conversations);
  split.conversations_a = 80;
  split.conversations_b = 12;
  EXPECT_THAT(line(split), StartsWith("Wait for more conversations: there are 80 of fp16 and 12 of fp8, and it takes "
                                      "50 of "
                                      "each: TTFT"));
  split.conversations_a = split.conversations_b = 1;
  EXPECT_THAT(line(split), StartsWith("Let more clients ask, or mirror their requests (twin): a split draws whole "
                                      "conversations: there are 1 of fp16 and 1 of fp8, and it takes 50 of each: "));
  split.minutes = 5;
  EXPECT_THAT(line(split), StartsWith("Wait for more conversations: "));
  auto broken = none;
  broken.faults[0].pairs = {900, 900, 0, 0};
  EXPECT_THAT(line(broken), StartsWith("Find out why requests fail: neither side answered: "));
  auto cold = none;
  cold.unfilled = Unfilled{"fp8", 160'000, 79'000};
  EXPECT_THAT(line(cold), StartsWith("Wait until the shadow is warm: fp8 has prefilled 79000 of the 160000 tokens "
                                     "that its "
                                     "KV cache holds: TTFT"));
  auto dropped = none;
  dropped.dropped = {{"primary_waits", 600}, {"max_in_flight", 1200}};
  EXPECT_THAT(line(dropped), StartsWith("Mirror some requests: nothing was mirrored, the shadow was spared 1800 "
                                        "requests: "
                                        "max_in_flight 1200, primary_waits 600. Raise max_in_flight of the "
                                        "[[shadow]]"));
  auto apart = none;
  apart.apart = Apart{};
  EXPECT_THAT(line(apart),
              StartsWith("Run fp16 and fp8 at the same time: they did not run together, so there is no verdict: "
                         "TTFT"));
}

TEST(Conclusion, WhereNothingStreamsNamesTheWholeAnswer) {
  auto whole = compared();
  for (const Figure figure : {Figure::ttft, Figure::tpot}) {
    Verdict unknown;
    unknown.figure = figure;
    of(whole, figure) = unknown;
  }
  Verdict e2e;
  e2e.figure = Figure::e2e;
  e2e.count = 900;
  e2e.value_a = 2;
  e2e.value_b = 2.1;
  e2e.estimate = 0.05;
  e2e.finding = Finding::not_worse;
  whole.verdicts.push_back(e2e);
  EXPECT_EQ(line(whole),
            "May be promoted: fp8 is not worse than fp16: E2E from 2.000 to 2.100 s (+5.0 %); answers "
            "are the "
            "same.");
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
