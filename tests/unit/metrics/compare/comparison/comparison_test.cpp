// What a comparison says of windows of known truth.
#include "metrics/compare/comparison/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "metrics/compare/comparison/conclusion.hpp"
#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using pairs::Fault;
using statistics::Figure;
using statistics::Finding;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Change = std::function<void(samples::Sample& b, double minute, std::mt19937_64& random)>;

/// A control and a candidate, 2.5 requests a second. `change` makes the candidate what it is.
TwinSamples hour(const Change& change, double minutes = 60, std::uint64_t seed = 3) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  TwinSamples samples;
  for (int i = 0; i < static_cast<int>(minutes * 150); ++i) {
    const double at_s = i * 0.4;
    const samples::Sample primary = samples.primary(static_cast<std::int64_t>(at_s * 1e6));
    const double prompt = std::exp(0.5 * normal(random));
    const auto answer = [&](samples::Sample& sample) {
      sample.ttft = static_cast<float>(0.1 * prompt * std::exp(0.2 * normal(random)));
      sample.tpot = static_cast<float>(0.02 * std::exp(0.03 * normal(random)));
      sample.output_tokens = static_cast<std::uint32_t>(100 + 20 * normal(random));
    };
    answer(samples.shadow(primary, "control0", "fp16", "control"));
    samples::Sample& b = samples.shadow(primary);
    answer(b);
    change(b, at_s / 60, random);
  }
  return samples;
}

void none(samples::Sample&, double, std::mt19937_64&) {}

struct Said {
  Comparison comparison;
  GateResult gate;
  std::string line;
};

Said said(TwinSamples samples, Options options) {
  Said said{compare(samples, options), {}, {}};
  said.gate = gate_of(said.comparison);
  said.line = conclusion_of(said.comparison, said.gate);
  return said;
}

Said said_of(const Change& change, double minutes = 60) {
  TwinSamples samples = hour(change, minutes);
  return said(samples, open_options_of(samples));
}

TEST(Comparison, AnIdenticalCandidatePassesInHalfAnHour) {
  const auto early = said_of(none, 4), ten = said_of(none, 9), done = said_of(none, 30);
  EXPECT_EQ(early.gate.word, Gate::unknown);
  EXPECT_EQ(ten.gate.word, Gate::unknown);
  EXPECT_THAT(ten.line, StartsWith("Wait "));
  EXPECT_EQ(done.gate.word, Gate::pass) << done.line;
  EXPECT_THAT(done.line, StartsWith("May be promoted, if its answers are as good: fp8 is not worse than fp16 "
                                    "(control)"));
  EXPECT_EQ(done.comparison.mode, pairs::Mode::control);
}

TEST(Comparison, WhatItWaitsForIsRight) {
  const auto open = said_of(none, 12);
  ASSERT_EQ(open.gate.word, Gate::unknown);
  double needs_s = 0;
  for (const auto& fault : open.comparison.faults) needs_s = std::max(needs_s, fault.needs_s.value_or(0));
  for (const auto& verdict : open.comparison.verdicts) needs_s = std::max(needs_s, verdict.needs_s.value_or(0));
  EXPECT_GT(needs_s, 720);
  EXPECT_EQ(said_of(none, needs_s / 60 + 1).gate.word, Gate::pass);
}

TEST(Comparison, ASlowerCandidateIsWorseWithinMinutes) {
  const Change quarter = [](samples::Sample& b, double, auto&) { b.tpot *= 1.25F; };
  const auto found = said_of(quarter, 8);
  EXPECT_EQ(found.gate.word, Gate::worse);
  EXPECT_THAT(found.line, StartsWith("Do not promote fp8: it is slower: TPOT from 19.99 to 24.98 ms (+24.9 %), TTFT"));
  EXPECT_EQ(said_of([](samples::Sample& b, double, auto&) { b.tpot *= 1.1F; }, 20).gate.word, Gate::worse);
}

TEST(Comparison, WithoutAHistorySmallDifferencesTakeFortyMinutes) {
  const Change little = [](samples::Sample& b, double, auto&) { b.tpot *= 1.05F; };
  const auto early = said_of(little, 30), late = said_of(little, 45);
  EXPECT_EQ(verdict_of(early.comparison, Figure::tpot).finding, Finding::inconclusive) << "5 % would pass else";
  EXPECT_TRUE(verdict_of(early.comparison, Figure::tpot).too_near);
  EXPECT_THAT(why_of(early.comparison, Figure::tpot), HasSubstr("two equal GPUs may drift apart by 8 %"));
  EXPECT_NEAR(verdict_of(early.comparison, Figure::tpot).needs_s.value_or(0), 40 * 60, 120)
      << "forty minutes tell whether they do";
  EXPECT_EQ(verdict_of(late.comparison, Figure::tpot).finding, Finding::worse);
  History history;
  history.paired = true;
  history.source = "same against its primary";
  for (auto& series : history.minutes) series = {statistics::Minutes(600)};
  for (std::size_t i = 0; i < 600; ++i)
    for (auto& series : history.minutes) series.front()[i] = 0.002 * (static_cast<double>(i % 7) - 3);
  TwinSamples samples = hour(little, 30);
  Options options = open_options_of(samples);
  options.histories = {history};
  const auto by_history = compare(samples, options);
  ASSERT_TRUE(by_history.history);
  EXPECT_EQ(verdict_of(by_history, Figure::tpot).finding, Finding::worse) << "a history tells how far they drift";
}

TEST(Comparison, ADriftIsToldAndKeepsSmallDifferencesFromAVerdict) {
  const auto drifting = said_of([](samples::Sample& b, double minute,
                                   auto&) { b.tpot *= static_cast<float>(1.05 + 0.02 * std::sin(minute / 6)); },
                                50);
  EXPECT_TRUE(drifting.comparison.drifts);
  EXPECT_TRUE(has_note(drifting.comparison, "drift"));
  EXPECT_NE(verdict_of(drifting.comparison, Figure::tpot).finding, Finding::worse);
  EXPECT_NEAR(verdict_of(drifting.comparison, Figure::tpot).effect.least_claim, std::log1p(2 * drift_allowance), 1e-12)
      << "a strong drift takes equal GPUs further apart";
}

TEST(Comparison, ALateChangeKeepsItFromPassing) {
  const auto doubled_from = [](double from, float factor) {
    return [=](samples::Sample& b, double minute, auto&) {
      if (minute >= from) b.tpot *= factor;
    };
  };
  EXPECT_EQ(said_of(none, 41).gate.word, Gate::pass);
  const auto soon = said_of(doubled_from(41, 2), 44), later = said_of(doubled_from(41, 2), 71);
  EXPECT_NE(soon.gate.word, Gate::pass) << "three minutes after it";
  EXPECT_EQ(later.gate.word, Gate::worse);
  EXPECT_THAT(later.line, HasSubstr("became slower at 00:41 (TPOT +99.9 %"));
  // Less than a fifth is to be looked at.
  const auto little = said_of(doubled_from(30, 1.1F), 60);
  EXPECT_EQ(little.gate.word, Gate::unknown);
  EXPECT_THAT(little.line, StartsWith("Do not promote yet: fp8 became worse at 00:30"));
}

/// At 12 minutes a tenth more may be a drift, and is beyond the margin in the last tenths, too; 24 minutes tell.
TEST(Comparison, ASteadyDifferenceIsNoLateChange) {
  const Change tenth = [](samples::Sample& b, double, auto&) { b.tpot *= 1.1F; };
  const auto early = said_of(tenth, 12);
  const Verdict& tpot = verdict_of(early.comparison, Figure::tpot);
  EXPECT_EQ(tpot.finding, Finding::inconclusive);
  EXPECT_TRUE(tpot.too_near);
  EXPECT_THAT(why_of(early.comparison, Figure::tpot), HasSubstr("two equal GPUs may drift apart by 16 %"));
  EXPECT_FALSE(tpot.lately);
  EXPECT_TRUE(tpot.needs_s);
  EXPECT_THAT(early.line, StartsWith("Wait "));
  EXPECT_EQ(said_of(tenth, 26).gate.word, Gate::worse);
}

/// The mean of an hour is inside every margin, and the users of the last minutes wait.
TEST(Comparison, TheLastTenthsKeepItFromPassing) {
  const auto late = said_of([](samples::Sample& b, double minute, auto&) {
    // The last two tenths alone are below the margin.
    b.tpot *= minute < 42 ? 1 : minute < 48 ? 1.12F : 1.075F;
  });
  const Verdict& tpot = verdict_of(late.comparison, Figure::tpot);
  ASSERT_TRUE(tpot.lately);
  EXPECT_NEAR(*tpot.lately, std::log(1.09), 0.01);
  EXPECT_EQ(tpot.finding, Finding::inconclusive);
  EXPECT_FALSE(tpot.needs_s);
  EXPECT_THAT(why_of(late.comparison, Figure::tpot), HasSubstr(" in the last three tenths of the window, more than 8 "
                                                               "%"));
}

TEST(Comparison, UsersWhoWaitKeepItFromPassing) {
  // One minute of an hour in which it stands still.
  const auto stood = said_of([](samples::Sample& b, double minute, auto&) {
    if (minute >= 30 && minute < 31) b.ttft = static_cast<float>(60 * (31 - minute));
  });
  EXPECT_EQ(stood.gate.word, Gate::unknown);
  EXPECT_THAT(stood.gate.unknown, ::testing::Contains(StartsWith("stalls: stalls of fp8 are +")));
  const auto few = said_of([](samples::Sample& b, double, auto& random) {
    if (random() % 20 == 0) b.ttft *= 3;
  });
  EXPECT_EQ(few.gate.word, Gate::worse) << few.line;
  EXPECT_LT(std::abs(*verdict_of(few.comparison, Figure::ttft_geomean).estimate), 0.08);
  const auto spread = said_of([](samples::Sample& b, double, auto& random) { b.ttft *= random() % 2 ? 2.0F : 0.5F; });
  EXPECT_EQ(spread.gate.word, Gate::worse);
}

/// One request in a hundred waits for six seconds on both sides: by chance their sums differ more than the margin.
TEST(Comparison, StallsThatBothHaveKeepNobodyFromPassing) {
  TwinSamples samples = hour(none, 30);
  std::mt19937_64 random(2);
  for (auto& sample : samples.each())
    if (sample.role == Role::shadow && random() % 100 == 0) sample.ttft = 6;
  const Comparison found = compare(samples, open_options_of(samples));
  const Verdict& stalls = verdict_of(found, Figure::stalls);
  EXPECT_GT(stalls.interval->high, stalls.effect.margin.high);
  EXPECT_EQ(stalls.finding, Finding::equivalent) << why_of(found, Figure::stalls);
  // Ten seconds, and a fifth of a's.
  EXPECT_NEAR(stalls.effect.margin.high, 10 + 0.2 * *stalls.value_a, 1e-9);
}

TEST(Comparison, FailuresThatBeginLateAreFound) {
  const auto late = said_of(
      [last = -1](samples::Sample& b, double minute, auto&) mutable {
        if (minute < 25 || static_cast<int>(minute) == last) return;
        last = static_cast<int>(minute);
        b.served = false;
        b.outcome = Outcome::upstream_error;
      },
      36);
  EXPECT_EQ(late.comparison.fault_of(Fault::failed)->pairs.only_b, 11U);
  EXPECT_EQ(late.gate.word, Gate::worse) << "eleven failures, one a minute, behind 25 sound minutes";
}

TEST(Comparison, LongerOrShorterAnswersDiffer) {
  for (const float factor : {0.5F, 1.2F}) {
    const auto found = said_of([=](samples::Sample& b, double, auto&) {
      b.output_tokens = static_cast<std::uint32_t>(factor * static_cast<float>(b.output_tokens));
    });
    EXPECT_EQ(found.gate.word, Gate::unknown);
    EXPECT_EQ(found.gate.but_for_answers, Gate::pass);
    EXPECT_EQ(found.comparison.answers.word, pairs::Alike::differs);
    EXPECT_THAT(found.line, StartsWith("Look at the answers of fp8 before you promote: they differ from those of "
                                       "fp16"));
    EXPECT_THAT(found.gate.answers, HasSubstr(factor < 1 ? "shorter" : "longer"));
  }
}

TEST(Comparison, WhereNothingStreamsTheWholeAnswerCounts) {
  const auto whole = [](float factor) {
    TwinSamples samples = hour(none, 40);
    std::mt19937_64 random(1);
    for (auto& sample : samples.each()) {
      sample.stream = false;
      sample.ttft = sample.tpot = samples::unknown;
      sample.e2e = static_cast<float>(2 + 0.001 * static_cast<double>(random() % 1000));
      if (sample.config == samples.names.of("fp8")) sample.e2e *= factor;
    }
    Options options = open_options_of(samples);
    return said(samples, options);
  };
  const auto same = whole(1), slow = whole(2);
  EXPECT_EQ(same.gate.word, Gate::pass) << same.line;
  EXPECT_THAT(same.line, HasSubstr("E2E from"));
  EXPECT_EQ(slow.gate.word, Gate::worse);
  EXPECT_EQ(verdict_of(slow.comparison, Figure::ttft).bar, Bar::no_values);
}

/// Makes whole answers of streams: E2E stands for their TPOT.
void make_whole(samples::Sample& sample) {
  sample.stream = false;
  sample.e2e = 100 * sample.tpot;
  sample.ttft = sample.tpot = samples::unknown;
}

TEST(Comparison, AFigureThatFewMinutesHaveSaysHowMany) {
  TwinSamples samples = hour(none, 12);
  for (auto& sample : samples.each())
    if (sample.dispatched_us >= 180 * second) make_whole(sample);
  const auto found = compare(samples, open_options_of(samples));
  EXPECT_THAT(why_of(found, Figure::ttft),
              HasSubstr("it takes 5 minutes in which both sides have it, and there are 3"));
}

TEST(Comparison, WhereNothingStreamsADriftIsSeenToo) {
  TwinSamples samples = hour([](samples::Sample& b, double minute,
                                auto&) { b.tpot *= static_cast<float>(1.05 + 0.02 * std::sin(minute / 6)); },
                             50);
  for (auto& sample : samples.each()) make_whole(sample);
  const auto found = compare(samples, open_options_of(samples));
  EXPECT_TRUE(found.drifts);
  EXPECT_NE(verdict_of(found, Figure::e2e).finding, Finding::worse);
}

/// Nobody knows how far the others drift.
TEST(Comparison, AHistoryCountsForTheFiguresThatItHas) {
  TwinSamples samples = hour([](samples::Sample& b, double, auto&) { b.tpot *= 1.05F; }, 30);
  for (auto& sample : samples.each()) make_whole(sample);
  Options options = open_options_of(samples);
  options.slo.emplace().e2e = config::Seconds(2.05);
  History history;
  history.paired = true;
  for (const auto figure : {Figure::ttft, Figure::tpot, Figure::ttft_geomean, Figure::tpot_geomean}) {
    auto& series = history.minutes[static_cast<std::size_t>(figure)];
    series = {statistics::Minutes(600)};
    for (std::size_t i = 0; i < 600; ++i) series.front()[i] = 0.002 * (static_cast<double>(i % 7) - 3);
  }
  options.histories = {history};
  const auto found = compare(samples, options);
  EXPECT_FALSE(found.history) << "none of a time that is compared";
  EXPECT_NEAR(verdict_of(found, Figure::e2e).effect.least_claim, std::log1p(drift_allowance), 1e-12);
  EXPECT_EQ(verdict_of(found, Figure::e2e).finding, Finding::inconclusive);
}

TEST(Comparison, WhereAnswersAreShortTpotKeepsNobodyFromPassing) {
  TwinSamples samples = hour(none, 40);
  for (auto& sample : samples.each()) sample.output_tokens = 10;
  const auto found = said(samples, open_options_of(samples));
  EXPECT_EQ(found.gate.word, Gate::pass) << found.line;
  EXPECT_THAT(why_of(found.comparison, Figure::tpot),
              HasSubstr("it takes answers of 16 tokens or more that are streamed on both sides"));
}

TEST(Comparison, WhatOneSideAloneHasIsToldAndDoesNotPass) {
  const auto found = said_of(
      [](samples::Sample& b, double, auto&) {
        b.output_tokens = samples::unknown_count;
        b.tpot = samples::unknown;
      },
      40);
  EXPECT_EQ(found.gate.word, Gate::unknown);
  EXPECT_THAT(why_of(found.comparison, Figure::tpot),
              HasSubstr("of the answers of fp16 (control) 6000 have it, of those of fp8 0"));
  EXPECT_THAT(found.line, StartsWith("Look before you promote: no request has TPOT, geometric mean TPOT and tokens per "
                                     "answer on both sides, and waiting alone will not tell"));
}

/// Fewer tokens, which are longer, in the same time.
TEST(Comparison, OtherTokensAreNoVerdict) {
  for (const double factor : {0.7, 1.3}) {
    const auto found = said_of([=](samples::Sample& b, double minute, auto&) {
      b.prompt_tokens = static_cast<std::uint32_t>(factor * b.prompt_tokens);
      b.output_tokens = static_cast<std::uint32_t>(factor * b.output_tokens);
      b.tpot *= static_cast<float>((minute < 30 ? 1 : 1.04) / factor);
    });
    for (const auto figure : {Figure::tpot, Figure::tpot_geomean, Figure::output_tokens})
      EXPECT_EQ(verdict_of(found.comparison, figure).bar, Bar::other_tokens);
    EXPECT_EQ(found.gate.word, Gate::unknown) << found.line;
    EXPECT_NE(found.comparison.answers.word, pairs::Alike::differs);
    EXPECT_THAT(found.line, StartsWith("Compare E2E and characters: the sides count tokens differently"));
  }
}

TEST(Comparison, WhatOneSideLacksMayBeItsSlowAnswers) {
  const auto lacking = said_of([](samples::Sample& b, double, auto& random) {
    if (random() % 10 < 3) b.ttft = samples::unknown;
  });
  EXPECT_EQ(verdict_of(lacking.comparison, Figure::ttft).bar, Bar::lacking);
  EXPECT_EQ(lacking.gate.word, Gate::unknown);
  EXPECT_THAT(sentence_of(lacking.comparison, "figure_missing"), StartsWith("TTFT is missing: fp8 lacks it in "));
  EXPECT_THAT(lacking.line, StartsWith("Find out why one side lacks figures: "));
  // Answers that come at once have no TPOT, nor have those that are short, or broke.
  TwinSamples samples = hour(none, 40);
  std::mt19937_64 random(7);
  for (auto& sample : samples.each()) {
    if (random() % 20 == 0) sample.tpot = samples::unknown;
    if (sample.role == Role::shadow && random() % 10 == 0) sample.output_tokens = 12;
  }
  const auto even = said(samples, open_options_of(samples));
  EXPECT_EQ(even.gate.word, Gate::pass) << even.line;
  EXPECT_FALSE(has_note(even.comparison, "figure_missing"));
}

/// Every copy for the candidate was dropped, so what is left is the control.
TEST(Comparison, OfOneConfigurationNothingIsToBePromoted) {
  for (const bool dropped : {true, false}) {
    TwinSamples samples = hour(none, 40);
    std::vector<samples::Sample> kept;
    for (auto sample : samples.all()) {
      const bool of_candidate = sample.config == samples.names.of("fp8");
      sample.ttft = 0.1F;
      if (of_candidate && dropped) {
        samples.drop(sample, "no_replica");
        sample.config = 0;
      }
      if (!of_candidate || dropped) kept.push_back(sample);
    }
    Options options = open_options_of(samples);
    options.b = options.a;
    const auto found = compare(kept, samples.names, options);
    const auto gate = gate_of(found);
    EXPECT_EQ(verdict_of(found, Figure::tpot).finding, Finding::equivalent) << "it is compared";
    EXPECT_EQ(gate.word, Gate::unknown);
    EXPECT_THAT(
        conclusion_of(found, gate),
        StartsWith("Nothing to promote: fp16 (control) is the same configuration as fp16, and no other is in "
                   "the logs" +
                   std::string(dropped ? "; other shadows were spared 6000 requests: no_replica 6000: " : ": ")));
  }
}

TEST(Comparison, FaultsThatBothHaveKeepNobodyFromPassing) {
  TwinSamples samples = hour(none, 30);
  std::mt19937_64 random(5);
  for (auto& sample : samples.each()) {
    if (sample.role != Role::shadow || random() % 100 != 0) continue;
    sample.served = false;
    sample.outcome = Outcome::upstream_error;
  }
  const auto found = said(samples, open_options_of(samples));
  EXPECT_EQ(found.comparison.fault_of(Fault::failed)->finding, Finding::not_worse)
      << why(*found.comparison.fault_of(Fault::failed), found.comparison);
  EXPECT_EQ(found.gate.word, Gate::pass) << found.line;
}

TEST(Comparison, WithNothingThereIsNothingToSay) {
  samples::Names names;
  Options options;
  options.a.name = names.of("x");
  options.b.name = names.of("y");
  const Comparison nothing = compare(std::vector<samples::Sample>{}, names, options);
  EXPECT_EQ(nothing.state, State::too_few);
  EXPECT_FALSE(nothing.needs_s);
  for (const Verdict& verdict : nothing.verdicts) EXPECT_FALSE(verdict.estimate || verdict.interval);
  EXPECT_THAT(conclusion_of(nothing, gate_of(nothing)), StartsWith("Wait for requests of both sides"));
}

TEST(Window, BeginsWhenTheShadowIsWarm) {
  TwinSamples samples;
  for (int i = 0; i < 360; ++i) samples.shadow(samples.primary(5 * i * second));
  Options options = open_options_of(samples);
  options.warm_up = {};
  const Comparison comparison = compare(samples, options);
  EXPECT_EQ(comparison.window.from_us, 600 * second);
  EXPECT_EQ(comparison.warming, 120u);
  EXPECT_EQ(comparison.pairs, 240u);
  EXPECT_EQ(comparison.fault_of(Fault::failed)->pairs.pairs, 360u) << "faults need no warm shadow";
  options.from_us = 700 * second;
  options.length_us = 1000 * second;
  const Comparison later = compare(samples, options);
  EXPECT_EQ(later.window, (statistics::Window{700 * second, 1700 * second}));
  EXPECT_EQ(later.pairs, 200u);
  EXPECT_EQ(later.state, State::final);
  options.length_us = 3600 * second;
  EXPECT_EQ(compare(samples, options).state, State::running) << "it has not ended";
  std::erase_if(samples.each(), [](const auto& one) { return one.dispatched_us > 820 * second; });
  EXPECT_EQ(compare(samples, options).state, State::running) << "nor begun to tell";
  EXPECT_FALSE(verdict_of(compare(samples, options), Figure::ttft).interval);
}

TEST(Window, OfAColdShadowHasNoVerdict) {
  TwinSamples samples;
  for (int i = 0; i < 360; ++i) samples.shadow(samples.primary(5 * i * second));
  Options options = open_options_of(samples);
  options.warm_up.seconds = 1;
  options.warm_up.kv_tokens = [](auto, auto) { return 1 << 30; };
  const Comparison comparison = compare(samples, options);
  EXPECT_EQ(comparison.pairs, 0u);
  EXPECT_EQ(comparison.warming, 360u);
  EXPECT_EQ(verdict_of(comparison, Figure::ttft).bar, Bar::cold);
  EXPECT_THAT(conclusion_of(comparison, gate_of(comparison)), StartsWith("Wait until the shadow is warm"));
}

TEST(Window, SidesThatDidNotMeetHaveNone) {
  TwinSamples samples;
  for (int i = 0; i < 900; ++i) samples.primary(i * second);
  for (int i = 900; i < 1800; ++i) samples.primary(i * second, "gpu0", "fp8");
  Options options = open_options_of(samples);
  const Comparison comparison = compare(samples, options);
  ASSERT_TRUE(comparison.apart);
  EXPECT_EQ(verdict_of(comparison, Figure::ttft).bar, Bar::apart);
  EXPECT_TRUE(has_note(comparison, "no_overlap"));
  EXPECT_THAT(conclusion_of(comparison, gate_of(comparison)), StartsWith("Run fp16 and fp8 at the same time"));
}

/// A pool of two configurations: each conversation is drawn for b with a quarter, and has a TTFT of its own.
TwinSamples split(int conversations, int turns, double minutes) {
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal;
  TwinSamples samples;
  for (int i = 0; i < conversations; ++i) {
    const bool of_b = random() % 4 == 0;
    const double usual = std::exp(0.5 * normal(random));
    for (int turn = 0; turn < turns; ++turn) {
      const auto at = static_cast<std::int64_t>(static_cast<double>(random() % 1'000'000) * minutes * 60);
      samples::Sample& sample = samples.primary(at, of_b ? "gpu1" : "gpu0", of_b ? "fp8" : "fp16");
      sample.group = static_cast<std::uint64_t>(i + 1);
      sample.ttft = static_cast<float>(0.1 * usual * std::exp(0.2 * normal(random)));
    }
  }
  return samples;
}

TEST(Split, TooFewConversationsHaveNoVerdictOnTimes) {
  TwinSamples samples = split(40, 60, 40);
  Options options = open_options_of(samples);
  const auto found = said(samples, options);
  EXPECT_EQ(found.comparison.mode, pairs::Mode::split);
  EXPECT_EQ(found.comparison.conversations_a + found.comparison.conversations_b, 40u);
  EXPECT_EQ(verdict_of(found.comparison, Figure::ttft).bar, Bar::conversations);
  EXPECT_THAT(why_of(found.comparison, Figure::ttft), HasSubstr("it takes 50 of each"));
  EXPECT_THAT(found.line, StartsWith("Wait for more conversations"));
}

TEST(Split, EachSideNeedsItsConversations) {
  TwinSamples samples = split(160, 20, 40);
  const auto found = compare(samples, open_options_of(samples));
  EXPECT_GT(found.conversations_a, least_conversations);
  EXPECT_LT(found.conversations_b, least_conversations);
  EXPECT_EQ(verdict_of(found, Figure::tpot).bar, Bar::conversations);
  EXPECT_EQ(verdict_of(found, Figure::output_tokens).bar, Bar::none) << "a length does not depend on the load";
}

TEST(Split, ItsErrorIsThatOfConversations) {
  TwinSamples few = split(300, 20, 40), many = split(6000, 1, 40);
  Options options = open_options_of(few);
  const auto of_few = compare(few, options);
  const auto of_many = compare(many, open_options_of(many));
  const auto width = [](const Comparison& one) {
    const auto& interval = *verdict_of(one, Figure::ttft_geomean).interval;
    return interval.high - interval.low;
  };
  EXPECT_GT(width(of_few), 2 * width(of_many)) << "as many requests of fewer conversations tell less";
  EXPECT_NE(verdict_of(of_few, Figure::ttft).finding, Finding::worse);
}

/// b has a quarter of the requests: one replica beside one, or beside three.
TEST(Split, ABusierReplicaIsSlowerForThatReasonAlone) {
  for (const bool beside_three : {false, true}) {
    TwinSamples samples = split(6000, 1, 40);
    std::uint64_t next = 0;
    for (auto& sample : samples.each()) {
      if (sample.config == samples.names.of("fp8"))
        sample.ttft *= 0.6F;
      else if (beside_three)
        sample.replica = samples.names.of("of_three" + std::to_string(next++ % 3));
    }
    Options options = open_options_of(samples);
    const auto found = compare(samples, options);
    EXPECT_EQ(verdict_of(found, Figure::ttft_geomean).finding, beside_three ? Finding::better : Finding::not_worse);
    EXPECT_EQ(has_note(found, "unequal_load"), !beside_three);
    EXPECT_NEAR(found.crowd, beside_three ? 1 : 1 / 3.0, 0.05);
    std::swap(options.a, options.b);
    const auto exchanged = compare(samples, options);
    const Verdict& verdict = verdict_of(exchanged, Figure::ttft_geomean);
    EXPECT_EQ(verdict.finding, beside_three ? Finding::worse : Finding::inconclusive);
    EXPECT_FALSE(verdict.needs_s) << "waiting does not tell";
  }
}

TEST(Split, AConversationFailsOnce) {
  TwinSamples samples = split(2000, 4, 40);
  // Two conversations of b in which every turn fails.
  std::uint64_t groups[2]{};
  for (auto& sample : samples.each()) {
    if (sample.config != samples.names.of("fp8")) continue;
    if (groups[0] == 0) groups[0] = sample.group;
    if (groups[1] == 0 && sample.group != groups[0]) groups[1] = sample.group;
    if (sample.group != groups[0] && sample.group != groups[1]) continue;
    sample.served = false;
    sample.outcome = Outcome::timeout;
  }
  const auto failed = *compare(samples, open_options_of(samples)).fault_of(Fault::failed);
  EXPECT_EQ(failed.pairs.only_b, 2u);
  EXPECT_EQ(failed.pairs.pairs, 2000u);
  EXPECT_NE(failed.finding, Finding::worse);
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
