#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

/// A thousand twins, one every 2 s. b is 10 % slower.
TwinSamples slower() {
  TwinSamples samples;
  for (int i = 0; i < 1000; ++i) {
    samples::Sample& shadow = samples.shadow(samples.primary(2 * i * second));
    shadow.ttft = 0.11f;
    shadow.tpot = static_cast<float>(0.0219 + 0.0002 * uniform(static_cast<std::uint64_t>(i), 1));
  }
  return samples;
}

samples::Sample& shadow_of(TwinSamples& samples, std::size_t pair) { return samples.each()[2 * pair + 1]; }

void fail(samples::Sample& sample, Outcome outcome) {
  sample.outcome = outcome;
  sample.served = false;
}

TEST(Load, OnePercentWithoutAFinishedShadowIsBorneMoreIsNot) {
  TwinSamples samples = slower();
  for (std::size_t i = 0; i < 10; ++i) samples.drop(shadow_of(samples, 30 + i), i % 2 ? "in_flight" : "queued_tokens");
  const Comparison borne = compare(samples, options_of(samples));
  EXPECT_FALSE(has_note(borne, "spared_load"));
  EXPECT_EQ(verdict_of(borne, statistics::Figure::tpot).finding, statistics::Finding::worse);
  EXPECT_THAT(borne.unfinished, ElementsAre(Pair("in_flight", 5), Pair("queued_tokens", 5)));
  EXPECT_EQ(borne.sampled, 1000u);

  fail(shadow_of(samples, 40), Outcome::timeout);
  const Comparison spared = compare(samples, options_of(samples));
  EXPECT_THAT(spared.unfinished, ElementsAre(Pair("in_flight", 5), Pair("queued_tokens", 5), Pair("timeout", 1)));
  EXPECT_EQ(verdict_of(spared, statistics::Figure::tpot).finding, statistics::Finding::worse)
      << "less load can only have helped";
  EXPECT_EQ(verdict_of(spared, statistics::Figure::output_tokens).finding, statistics::Finding::equivalent);
  EXPECT_THAT(sentence_of(spared, "spared_load"),
              HasSubstr("fp8 has no finished answer to 11 of 1000 requests (1.1 %) that fp16 finished, with 1.1 % of "
                        "the prompt tokens; by reason: in_flight 5, "
                        "queued_tokens 5, timeout 1."));
}

TEST(Load, AShadowThatWasDroppedBeforeItHadAReplicaIsOfItsShadowsSide) {
  TwinSamples samples = slower();
  for (std::size_t i = 0; i < 20; ++i) {
    samples.drop(shadow_of(samples, 30 + i), "in_flight");
    shadow_of(samples, 30 + i).config = 0;
    if (i < 5) shadow_of(samples, 30 + i).shadow = samples.names.of("another");
  }
  const auto reasons = ElementsAre(Pair("in_flight", 15), Pair("not_mirrored", 5));
  EXPECT_THAT(compare(samples, options_of(samples)).unfinished, reasons);
  Options by_replica = options_of(samples);
  by_replica.b = {sides::By::replica, samples.names.of("cand0")};
  EXPECT_THAT(compare(samples, by_replica).unfinished, reasons);
  Options by_shadow = options_of(samples);
  by_shadow.b = {sides::By::shadow, samples.names.of("fp8")};
  EXPECT_THAT(compare(samples, by_shadow).unfinished, reasons);
}

TEST(Load, FinishedIsWhatWasAnsweredAsFarAsTheClientStayed) {
  struct Case {
    const char* name;
    Outcome a, b;
    bool served, finished;
  };
  const auto ok = Outcome::ok;
  for (const auto& c :
       {Case{"ok", ok, ok, true, true}, Case{"empty", ok, Outcome::ok_empty, true, true},
        Case{"followed its client", Outcome::client_abort, Outcome::client_abort, false, true},
        Case{"refused by both", Outcome::client_error, Outcome::client_error, false, true},
        Case{"refused by the shadow", ok, Outcome::client_error, false, false},
        Case{"failed", ok, Outcome::upstream_error, false, false},
        Case{"reset", ok, Outcome::upstream_reset, false, false},
        Case{"truncated", ok, Outcome::truncated, false, false}, Case{"timeout", ok, Outcome::timeout, false, false},
        Case{"busy", ok, Outcome::replica_refused, false, false}}) {
    samples::Sample a, b;
    a.outcome = c.a;
    b.outcome = c.b;
    b.served = c.served;
    EXPECT_EQ(pairs::finished(b, a), c.finished) << c.name;
    b.drop_reason = 1;
    EXPECT_FALSE(pairs::finished(b, a)) << c.name;
  }
}

TEST(Load, ATwinsRequestWithoutAShadowIsNotMirrored) {
  TwinSamples samples = slower();
  for (int i = 0; i < 10; ++i) samples.primary((100 + 2 * i) * second);
  EXPECT_FALSE(has_note(compare(samples, options_of(samples)), "spared_load"));
  samples.primary(121 * second);
  const Comparison comparison = compare(samples, options_of(samples));
  EXPECT_THAT(comparison.unfinished, ElementsAre(Pair("not_mirrored", 11)));
  EXPECT_EQ(comparison.sampled, 1011u);
  EXPECT_TRUE(has_note(comparison, "spared_load"));
}

TEST(Load, SomeRequestsAreNeverMirrored) {
  TwinSamples samples = slower();
  for (int i = 0; i < 100; ++i) {
    samples.primary((100 + 2 * i) * second).api = Api::other;
    samples.primary((101 + 2 * i) * second, "gpu1");  // Another replica than the twin's.
    fail(samples.primary((102 + 2 * i) * second), Outcome::rejected);
    fail(samples.primary((103 + 2 * i) * second), Outcome::client_error);
  }
  const Comparison comparison = compare(samples, options_of(samples));
  EXPECT_TRUE(comparison.unfinished.empty());
  EXPECT_FALSE(has_note(comparison, "load_differs"));
}

TEST(Load, AShadowMayStillRunAtTheEnd) {
  TwinSamples samples = slower();  // Answers take 2.08 s, so what began 4.16 s before the end is complete.
  const std::int64_t end = samples.each().back().received_us + 2'080'000;
  for (int i = 0; i < 20; ++i) {
    samples::Sample& primary = samples.primary(end - 4 * second - i);
    primary.e2e = primary.lasted = 1;
  }
  EXPECT_TRUE(compare(samples, options_of(samples)).unfinished.empty());
  for (int i = 0; i < 20; ++i) samples.primary(end - 5 * second - i);
  EXPECT_THAT(compare(samples, options_of(samples)).unfinished, ElementsAre(Pair("not_mirrored", 20)));
}

TEST(Load, ASampleOfAPoolHasNoVerdictOnLatency) {
  TwinSamples samples;
  for (int i = 0; i < 1000; ++i) {
    samples::Sample& primary = samples.primary(2 * i * second, i % 2 ? "gpu0" : "gpu1");
    primary.in_flight_mean = 8;
    samples::Sample& shadow = samples.shadow(primary);
    shadow.ttft = 0.11f;
    shadow.in_flight_mean = 2;
  }
  Options options = options_of(samples);
  options.slo = config::Slo{"s", "chat", config::Seconds(0.1), {}, {}, {}};
  const Comparison comparison = compare(samples, options);
  EXPECT_THAT(sentence_of(comparison, "load_differs"), HasSubstr("mean number in flight 8.0 and 2.0"));
  for (const auto figure : {statistics::Figure::ttft, statistics::Figure::tpot, statistics::Figure::stalls})
    EXPECT_EQ(verdict_of(comparison, figure).bar, Bar::load_differs) << name_of(figure);
  EXPECT_NE(comparison.fault_of(pairs::Fault::slo)->finding, statistics::Finding::worse);
  EXPECT_THAT(why_of(comparison, statistics::Figure::ttft), HasSubstr("the two sides did not have the same load"));
  EXPECT_TRUE(verdict_of(comparison, statistics::Figure::ttft).interval);
  EXPECT_EQ(verdict_of(comparison, statistics::Figure::output_tokens).finding, statistics::Finding::equivalent)
      << "load changes no length";
  // The operator may know better.
  options.same_load = true;
  EXPECT_EQ(verdict_of(compare(samples, options), statistics::Figure::ttft).finding, statistics::Finding::worse);
}

TEST(Load, ASampleOfOneReplicaHasNoVerdictEither) {
  TwinSamples samples = slower();
  for (int i = 0; i < 9000; ++i) samples.primary(i * second / 5);
  const Comparison comparison = compare(samples, options_of(samples));
  EXPECT_TRUE(has_note(comparison, "load_differs"));
  EXPECT_FALSE(has_note(comparison, "spared_load"));
  EXPECT_EQ(comparison.sampled, 1000u);
  TwinSamples twin = slower();
  Options options = options_of(twin);
  options.same_load = false;
  EXPECT_EQ(verdict_of(compare(twin, options), statistics::Figure::tpot).finding, statistics::Finding::inconclusive);
}

TEST(Load, EitherShadowMayHaveBeenSpared) {
  TwinSamples samples;
  for (int i = 0; i < 1000; ++i) {
    const samples::Sample& primary = samples.primary(2 * i * second);
    samples::Sample& control = samples.shadow(primary, "control0", "fp16", "same");
    if (i % 20 == 7) samples.drop(control, "late_loop");
    if (i % 100 != 7) samples.shadow(primary);
  }
  const Comparison comparison = compare(samples, options_of(samples));
  EXPECT_EQ(comparison.mode, pairs::Mode::control);
  EXPECT_TRUE(has_note(comparison, "control"));
  // Ten of the 50 dropped pairs had no candidate either.
  EXPECT_THAT(comparison.unfinished, ElementsAre(Pair("late_loop", 40), Pair("not_mirrored", 10)));
  EXPECT_THAT(sentence_of(comparison, "spared_load"),
              HasSubstr("fp16 (same) has no finished answer to 40 of 1000 requests (4.0 %) that fp8 finished"));
}

/// A thousand pairs of a control and a candidate that is `factor` as slow.
TwinSamples with_control(double factor) {
  TwinSamples samples;
  for (int i = 0; i < 1000; ++i) {
    const samples::Sample primary = samples.primary(2 * i * second);
    samples::Sample& control = samples.shadow(primary, "control0", "fp16", "same");
    control.tpot = static_cast<float>(0.0199 + 0.0002 * uniform(static_cast<std::uint64_t>(i), 1));
    samples.shadow(primary).tpot = static_cast<float>(control.tpot * factor);
  }
  return samples;
}

samples::Sample& control_of(TwinSamples& samples, std::size_t i) { return samples.each()[3 * i + 1]; }
samples::Sample& candidate_of(TwinSamples& samples, std::size_t i) { return samples.each()[3 * i + 2]; }

TEST(Load, BothShadowsLackIsSparedNeither) {
  TwinSamples samples = with_control(1.1);
  for (std::size_t i = 3; i < 1000; i += 10) {
    samples.drop(control_of(samples, i), "loop_late");
    samples.drop(candidate_of(samples, i), "loop_late");
  }
  const Comparison comparison = compare(samples, options_of(samples));
  EXPECT_FALSE(has_note(comparison, "spared_load"));
  EXPECT_EQ(verdict_of(comparison, statistics::Figure::tpot).finding, statistics::Finding::worse);
  EXPECT_THAT(comparison.unfinished, ElementsAre(Pair("loop_late", 100))) << "each request counts once";
  EXPECT_EQ(comparison.sampled, 1000u);
}

TEST(Load, SpeaksAgainstTheSparedSideAlone) {
  using statistics::Finding;
  for (const bool candidate_spared : {true, false}) {
    for (const double factor : {1.1, 0.9, 1.0}) {
      TwinSamples samples = with_control(factor);
      for (std::size_t i = 3; i < 1000; i += 50)
        samples.drop(candidate_spared ? candidate_of(samples, i) : control_of(samples, i), "in_flight");
      const Comparison comparison = compare(samples, options_of(samples));
      EXPECT_TRUE(has_note(comparison, "spared_load"));
      const Verdict& tpot = verdict_of(comparison, statistics::Figure::tpot);
      const Finding stands = candidate_spared ? Finding::worse : Finding::better;
      const bool is = (candidate_spared && factor > 1) || (!candidate_spared && factor < 1);
      EXPECT_EQ(tpot.finding, is ? stands : Finding::inconclusive) << candidate_spared << factor;
    }
  }
}

TEST(Load, TheSentenceIsAboutTheRequestsOfTheSparedSide) {
  TwinSamples samples = with_control(0.9);
  // Of the candidate's 40 the primary tells that they are four times as long; the control's 20 are others.
  for (std::size_t i = 0; i < 40; ++i) {
    samples.each()[3 * (10 * i + 1)].prompt_tokens = 2000;
    samples.drop(candidate_of(samples, 10 * i + 1), "in_flight");
    samples.drop(control_of(samples, 10 * i + 1), "loop_late");
    if (i < 20) samples.drop(control_of(samples, 10 * i + 5), "loop_late");
  }
  EXPECT_THAT(
      sentence_of(compare(samples, options_of(samples)), "spared_load"),
      HasSubstr("fp16 (same) has no finished answer to 20 of 1000 requests (2.0 %) that fp8 finished, with 1.8 % of "
                "the prompt tokens"));
  TwinSamples other = with_control(0.9);
  for (std::size_t i = 0; i < 40; ++i) {
    other.each()[3 * (10 * i + 1)].prompt_tokens = 2000;
    other.drop(candidate_of(other, 10 * i + 1), "in_flight");
    control_of(other, 10 * i + 1).prompt_tokens = samples::unknown_count;
  }
  EXPECT_THAT(sentence_of(compare(other, options_of(other)), "spared_load"),
              HasSubstr("with 14.3 % of the prompt tokens; by reason: in_flight 40."));
}

TEST(Load, ConfigurationsThatShareAPoolHaveTheSameLoad) {
  for (const bool shared : {true, false}) {
    TwinSamples samples;
    for (int i = 0; i < 1000; ++i) {
      samples::Sample& sample = samples.primary(2 * i * second, i % 2 ? "gpu1" : "gpu0", i % 2 ? "fp8" : "fp16");
      if (i % 2) sample.ttft = 0.2f;
      if (i % 2 && !shared) sample.pool = samples.names.of("batch");
    }
    Options options = open_options_of(samples);
    options.to_us = 2 * 998 * second + 1;
    const Comparison comparison = compare(samples, options);
    EXPECT_EQ(comparison.mode, pairs::Mode::split);
    EXPECT_EQ(has_note(comparison, "load_differs"), !shared);
    EXPECT_EQ(verdict_of(comparison, statistics::Figure::ttft).finding,
              shared ? statistics::Finding::worse : statistics::Finding::inconclusive);
    // The window begins with the second request, when both sides are there, and ends with the last but one.
    EXPECT_EQ(comparison.requests_a, 499u);
    EXPECT_EQ(comparison.requests_b, 499u);
  }
}

TEST(Notes, PromptsOfUnlikeTokenCountsMeanAnotherTokenizer) {
  for (const auto& [tokens, noted] : {std::pair(505u, false), std::pair(506u, true), std::pair(494u, true)}) {
    TwinSamples samples = slower();
    for (std::size_t i = 0; i < 1000; ++i) shadow_of(samples, i).prompt_tokens = tokens;
    EXPECT_EQ(has_note(compare(samples, options_of(samples)), "different_tokenizer"), noted) << tokens;
  }
  // More tokens here and fewer there do not cancel.
  TwinSamples samples = slower();
  for (std::size_t i = 0; i < 1000; ++i) shadow_of(samples, i).prompt_tokens = i % 2 ? 450 : 550;
  EXPECT_TRUE(has_note(compare(samples, options_of(samples)), "different_tokenizer"));
}

TEST(Notes, SeveralAnswersOfOneSideAreTold) {
  TwinSamples samples = slower();
  for (std::size_t i = 0; i < 3; ++i) samples.shadow(samples.each()[2 * i], "cand1");
  EXPECT_THAT(sentence_of(compare(samples, options_of(samples)), "several_answers"),
              HasSubstr("One side has several answers to 3 requests"));
}

/// A shadow that was spared every request is never warm, and more time would change nothing.
TEST(LoadAndNotes, NothingMirroredIsToldWithItsReasons) {
  TwinSamples samples;
  for (int i = 0; i < 600; ++i) {
    const auto primary = samples.primary(i * second);
    samples.drop(samples.shadow(primary), i % 3 ? "max_in_flight" : "down");
  }
  auto options = open_options_of(samples);
  options.warm_up.seconds = 600;
  const auto none = compare(samples, options);
  EXPECT_THAT(none.dropped, ElementsAre(Pair("down", 200), Pair("max_in_flight", 400)));
  EXPECT_FALSE(none.needs_s);
  EXPECT_THAT(sentence_of(none, "nothing_mirrored"),
              HasSubstr("spared 600 requests: max_in_flight 400, down 200. Raise"));
  EXPECT_FALSE(has_note(none, "warm_up"));
  samples.shadow(samples.primary(600 * second));
  const auto one = compare(samples, options);
  EXPECT_TRUE(one.dropped.empty());
  EXPECT_FALSE(has_note(one, "nothing_mirrored"));
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
