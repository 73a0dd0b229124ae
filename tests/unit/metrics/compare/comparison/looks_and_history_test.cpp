// When a comparison may be looked at: at five moments, or at any with a history of one configuration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Finding;
using statistics::Metric;
using testing::HasSubstr;

constexpr std::int64_t minute = 60 * second;

/// Pairs every 5 s; b's TPOT is `factor` of a's, give or take a percent, which changes with the minute.
TwinSamples pairs_for(int minutes, double factor) {
  TwinSamples samples;
  for (int i = 0; i < 12 * minutes; ++i) {
    samples::Sample& shadow = samples.shadow(samples.primary(5 * i * second));
    const double noise = 0.01 * (2 * uniform(static_cast<std::uint64_t>(i / 12), 1) - 1);
    shadow.tpot = static_cast<float>(0.02 * factor * std::exp(noise));
  }
  return samples;
}

TEST(Looks, AreFiveAndEachIsTwiceAsLateAsTheOneBefore) {
  struct Case {
    int minutes;
    unsigned number;
    double at_s;
    std::optional<double> next_s;
  };
  for (const auto& c : {Case{5, 0, 0, 600}, Case{9, 0, 0, 600}, Case{10, 1, 600, 1200}, Case{19, 1, 600, 1200},
                        Case{20, 2, 1200, 2400}, Case{39, 2, 1200, 2400}, Case{79, 3, 2400, 4800},
                        Case{157, 4, 4800, 9600}, Case{160, 5, 9600, std::nullopt}, Case{300, 5, 9600, std::nullopt}}) {
    SCOPED_TRACE(c.minutes);
    TwinSamples samples = pairs_for(c.minutes, 1.1);
    const Comparison comparison = compare(samples, open_options_of(samples));
    ASSERT_TRUE(comparison.look);
    EXPECT_EQ(comparison.look->number, c.number);
    EXPECT_EQ(comparison.look->at_s, c.at_s);
    EXPECT_EQ(comparison.look->next_s, c.next_s);
    EXPECT_EQ(comparison.state, c.number ? State::running : State::too_few);
    EXPECT_EQ(comparison.needs_s, c.number ? std::nullopt : std::optional(600.0));
    EXPECT_EQ(comparison.pairs, static_cast<std::uint64_t>(12 * c.minutes)) << "all pairs are described";
    EXPECT_EQ(comparison.explorations.empty(), c.number == 0) << "nothing is explored before the first look";
    const Verdict& tpot = verdict_of(comparison, Metric::tpot);
    EXPECT_EQ(tpot.finding, c.number ? Finding::worse : Finding::inconclusive);
    EXPECT_EQ(tpot.looks, 5u);
  }
}

TEST(Looks, BetweenTwoTheVerdictIsThatOfTheLast) {
  TwinSamples at_look = pairs_for(20, 1.03);
  const Comparison then = compare(at_look, open_options_of(at_look));
  for (const int minutes : {21, 30, 39}) {
    TwinSamples samples = pairs_for(minutes, 1.03);
    // Whatever comes behind the look changes nothing.
    for (samples::Sample& sample : samples.each()) {
      if (sample.received_us >= 20 * minute) sample.tpot *= sample.role == Role::shadow ? 3.0f : 1.0f;
    }
    const Comparison comparison = compare(samples, open_options_of(samples));
    for (const Metric metric : {Metric::ttft, Metric::tpot, Metric::output_tokens}) {
      const Verdict &now = verdict_of(comparison, metric), &last = verdict_of(then, metric);
      EXPECT_NEAR(*now.estimate, *last.estimate, 1e-9);
      EXPECT_NEAR(now.interval->low, last.interval->low, 1e-9);
      EXPECT_EQ(now.finding, last.finding);
      EXPECT_EQ(now.why, last.why) << "with the blocks that moved it";
    }
    EXPECT_THAT(verdict_of(comparison, Metric::tpot).why, HasSubstr("ten blocks of 120 s, look 2 of 5"));
  }
}

TEST(Looks, ABlockWithoutRequestsIsOneOfTheLook) {
  TwinSamples samples;
  for (int i = 0; i < 12 * 39; ++i) {
    const int at_s = 5 * i;
    if (at_s < 240 || at_s >= 360) samples.shadow(samples.primary(at_s * second));
  }
  const Verdict verdict = verdict_of(compare(samples, open_options_of(samples)), Metric::tpot);
  EXPECT_FALSE(verdict.interval);
  EXPECT_THAT(verdict.why, HasSubstr("block 3 (00:04:00) has no value"));
}

TEST(Looks, ADeclaredWindowWithoutPairsIsNotTooShort) {
  TwinSamples samples = pairs_for(30, 1);
  for (int i = 0; i < 12 * 30; ++i) samples.primary((5 * i + 1800) * second);
  Options options = open_options_of(samples);
  options.from_us = 31 * minute;
  options.to_us = 59 * minute;
  const Comparison comparison = compare(samples, options);
  EXPECT_EQ(comparison.state, State::too_few);
  EXPECT_EQ(comparison.needs_s, std::nullopt);
  EXPECT_THAT(verdict_of(comparison, Metric::tpot).why, HasSubstr("no request has a figure that can be compared"));
}

TEST(Looks, HaveWiderLimitsThanADeclaredWindow) {
  TwinSamples samples = pairs_for(20, 1.03);
  Options options = open_options_of(samples);
  const Verdict open = verdict_of(compare(samples, options), Metric::tpot);
  options.length_us = 20 * minute;
  const Comparison declared = compare(samples, options);
  EXPECT_EQ(declared.state, State::final);
  EXPECT_FALSE(declared.look);
  const Verdict once = verdict_of(declared, Metric::tpot);
  EXPECT_EQ(once.looks, 1u);
  // scipy: t.isf(0.005, 9) / t.isf(0.025, 9)
  EXPECT_NEAR(std::log1p(open.interval->high) - open.effect->mean,
              3.2498355415921254 / 2.262157162798205 * (std::log1p(once.interval->high) - once.effect->mean), 1e-6);
  EXPECT_NEAR(open.p, std::min(1.0, 5 * once.p), 1e-6 * open.p);
}

TEST(Looks, ABlockMustStillBeLongEnough) {
  TwinSamples samples = pairs_for(45, 1.1);
  for (samples::Sample& sample : samples.each()) sample.e2e = sample.lasted = 100;  // Blocks of 200 s.
  const Comparison comparison = compare(samples, open_options_of(samples));
  EXPECT_EQ(comparison.look->number, 1u);
  EXPECT_EQ(comparison.look->at_s, 2400);
  TwinSamples early = pairs_for(35, 1.1);
  for (samples::Sample& sample : early.each()) sample.e2e = sample.lasted = 100;
  EXPECT_EQ(compare(early, open_options_of(early)).needs_s, 2400) << "2000 s would do, but the next look is later";
}

/// Nine hours of a primary and its control, and a candidate in the last `minutes`, `factor` as slow. With `control` it
/// is compared with the control, otherwise with the primary.
struct Nights {
  TwinSamples samples;

  explicit Nights(int minutes, double factor, int hours = 9, double noise = 0.01) {
    const int all = 60 * hours;
    for (int i = 0; i < all * 3; ++i) {
      samples::Sample primary = samples.primary(20 * i * second);
      samples.shadow(primary, "same0", "fp16", "same").tpot = drifting(i / 3, 1, noise);
      if (i / 3 >= all - minutes) samples.shadow(primary).tpot = drifting(i / 3, 2, noise) * static_cast<float>(factor);
    }
  }
  static float drifting(int at, std::uint64_t salt, double noise) {
    return static_cast<float>(0.02 * std::exp(noise * (2 * uniform(static_cast<std::uint64_t>(at), salt) - 1)));
  }
  /// The candidate against the primary, since the control began long before the candidate.
  Comparison of() {
    Options options = open_options_of(samples);
    options.a = {sides::By::replica, samples.names.of("gpu0")};
    options.b = {sides::By::shadow, samples.names.of("fp8")};
    return compare(samples, options);
  }
};

TEST(History, OfAControlLetsAVerdictComeAtAnyMinuteFromTheFifthOn) {
  for (const int minutes : {6, 7, 8, 13}) {
    SCOPED_TRACE(minutes);
    Nights slower(minutes, 1.25);
    const Comparison comparison = slower.of();
    ASSERT_TRUE(comparison.history);
    EXPECT_NEAR(comparison.history->hours, 9, 0.1);
    EXPECT_EQ(comparison.history->source, "same against its primary");
    EXPECT_EQ(comparison.state, State::running);
    const Verdict& tpot = verdict_of(comparison, Metric::tpot);
    ASSERT_TRUE(tpot.sequence);
    EXPECT_EQ(tpot.finding, Finding::worse);
    EXPECT_NEAR(*tpot.estimate, 0.25, 0.02);
    EXPECT_THAT(tpot.why, HasSubstr("minutes, by a history of 9.0 h"));
    Nights equal(minutes, 1);
    EXPECT_THAT(verdict_of(equal.of(), Metric::tpot).finding,
                testing::AnyOf(Finding::equivalent, Finding::not_worse, Finding::inconclusive));
  }
}

TEST(History, GivesNothingBeforeTheFifthMinute) {
  Nights early(4, 1.25);
  const Comparison comparison = early.of();
  const Verdict& tpot = verdict_of(comparison, Metric::tpot);
  EXPECT_FALSE(tpot.interval);
  EXPECT_TRUE(tpot.withheld);
  EXPECT_NEAR(tpot.needs_s.value_or(0), 300, 2.5) << "of whose last seconds not all has ended";
  EXPECT_NEAR(comparison.needs_s.value_or(0), 300, 2.5) << "a tail has no history, and needs 600 s";
}

/// A verdict says how long a window would do, and not that a longer one is too short.
TEST(History, OfMinutesThatHaveNoPairsOrAreNotOverSaysHowLongAWindowWouldDo) {
  Nights nights(5, 1.25);
  const Comparison five = nights.of();
  EXPECT_GT(five.window.seconds(), 275);
  EXPECT_FALSE(verdict_of(five, Metric::tpot).interval);
  EXPECT_NEAR(verdict_of(five, Metric::tpot).needs_s.value_or(0), 300, 2.5);
  // One minute in five of the last twenty has requests.
  Nights thin(20, 1.25);
  const auto is_left_out = [&](const samples::Sample& sample) {
    const std::int64_t at = sample.received_us / minute;
    return at >= 9 * 60 - 20 && at % 5 != 0;
  };
  std::erase_if(thin.samples.each(), is_left_out);
  const Comparison some = thin.of();
  EXPECT_GT(some.window.seconds(), 900);
  const Verdict& tpot = verdict_of(some, Metric::tpot);
  EXPECT_FALSE(tpot.interval);
  EXPECT_GT(tpot.needs_s.value_or(0), some.window.seconds());
  EXPECT_LT(tpot.needs_s.value_or(0), some.window.seconds() + 2 * 60);
}

TEST(Looks, AreOverWhereBlocksMustBeLongerThanTheirs) {
  TwinSamples samples;
  for (int i = 0; i < 60 * 200; ++i) samples.shadow(samples.primary(5 * i * second));
  for (samples::Sample& sample : samples.each()) sample.e2e = sample.lasted = 600;
  const Comparison comparison = compare(samples, open_options_of(samples));
  EXPECT_EQ(comparison.look->number, 0u);
  EXPECT_EQ(comparison.look->next_s, std::nullopt);
  EXPECT_EQ(comparison.needs_s, std::nullopt);
  EXPECT_THAT(verdict_of(comparison, Metric::tpot).why,
              HasSubstr("than those of any look that is left; declare a window"));
}

TEST(History, OfLessThanEightHoursIsNone) {
  Nights seven(30, 1.25, 7);
  const Comparison comparison = seven.of();
  EXPECT_FALSE(comparison.history);
  EXPECT_FALSE(verdict_of(comparison, Metric::tpot).sequence);
}

TEST(History, ThatVariesMoreTakesLonger) {
  const auto width = [](double noise) {
    Nights nights(8, 1, 9, noise);
    const Verdict tpot = verdict_of(nights.of(), Metric::tpot);
    return tpot.interval->high - tpot.interval->low;
  };
  EXPECT_GT(width(0.05), 3 * width(0.01));
}

TEST(History, ADeclaredWindowIsFinalWithItToo) {
  Nights nights(30, 1.25);
  Options options = options_of(nights.samples);
  options.a = {sides::By::replica, nights.samples.names.of("gpu0")};
  options.b = {sides::By::shadow, nights.samples.names.of("fp8")};
  EXPECT_EQ(compare(nights.samples, options).state, State::final);
  // Before the end of a declared window there is a verdict by the history alone.
  options.to_us = *options.to_us + 30 * minute;
  const Comparison running = compare(nights.samples, options);
  EXPECT_EQ(running.state, State::running);
  EXPECT_EQ(verdict_of(running, Metric::tpot).finding, Finding::worse);
  EXPECT_TRUE(verdict_of(running, Metric::tpot_tail).withheld);
}

TEST(History, OfReplicasOfOneConfigurationServesWhereThereIsNoControl) {
  TwinSamples samples;
  for (int i = 0; i < 9 * 60 * 6; ++i) {
    samples::Sample& primary = samples.primary(10 * i * second, i % 2 ? "gpu1" : "gpu0");
    primary.tpot = Nights::drifting(i / 6, static_cast<std::uint64_t>(i % 2), 0.01);
    if (i % 2 == 0 && i / 6 >= 9 * 60 - 20) samples.shadow(primary).tpot = primary.tpot * 1.25f;
  }
  const Comparison comparison = compare(samples, open_options_of(samples));
  ASSERT_TRUE(comparison.history);
  EXPECT_EQ(comparison.history->source, "gpu1 against gpu0");
  EXPECT_EQ(verdict_of(comparison, Metric::tpot).finding, Finding::worse);
}

/// Two pools, of which one is quiet: its replicas say nothing of the noise in the other.
TEST(History, OfAnotherPoolDoesNotCount) {
  TwinSamples samples;
  const auto quiet = samples.names.of("batch");  // Before "chat" in every order.
  for (int i = 0; i < 9 * 60 * 6; ++i) {
    samples::Sample& primary = samples.primary(10 * i * second, i % 2 ? "gpu1" : "gpu0");
    primary.tpot = Nights::drifting(i / 180, static_cast<std::uint64_t>(i % 2), 0.1);
    if (i % 2 == 0 && i / 6 >= 9 * 60 - 20) samples.shadow(primary).tpot = primary.tpot;
    for (const char* const replica : {"calm0", "calm1", "calm2", "calm3"})
      samples.primary(10 * i * second, replica).pool = quiet;
  }
  const std::vector<History> histories =
      histories_of(couples_of(samples.all(), samples.names, pairs::WarmUp{.seconds = 0}));
  ASSERT_EQ(histories.size(), 2u);
  for (const History& one : histories) {
    if (one.pool == "batch") {
      EXPECT_EQ(one.source, "calm1 against calm0, calm3 against calm2");
      EXPECT_EQ(one.variance(Metric::tpot), 0);
    } else {
      EXPECT_EQ(one.pool, "chat");
      EXPECT_EQ(one.source, "gpu1 against gpu0");
      EXPECT_GT(one.variance(Metric::tpot), 0.01);
    }
  }
  const Comparison comparison = compare(samples, open_options_of(samples));
  ASSERT_TRUE(comparison.history);
  EXPECT_EQ(comparison.history->source, "gpu1 against gpu0");
}

TEST(History, ThatIsGivenCountsBeforeThatOfTheSamples) {
  Nights nights(8, 1.02);
  Options options = open_options_of(nights.samples);
  options.a = {sides::By::replica, nights.samples.names.of("gpu0")};
  options.b = {sides::By::shadow, nights.samples.names.of("fp8")};
  History given;
  given.source = "--floor floor.jsonl";
  for (const Metric metric : metrics_of_minutes) {
    statistics::Minutes minutes;
    for (int i = 0; i < 600; ++i) minutes.push_back(i / 30 % 2 ? 1.0 : -1.0);
    given.minutes[static_cast<std::size_t>(metric)] = {minutes};
  }
  options.histories = {given};
  const Comparison comparison = compare(nights.samples, options);
  EXPECT_EQ(comparison.history->source, "--floor floor.jsonl");
  EXPECT_EQ(comparison.history->hours, 10);
  EXPECT_GT(verdict_of(comparison, Metric::tpot).interval->high, 1);
}

TEST(History, OfAShadowsColdBeginningDoesNotCount) {
  Nights nights(8, 1);
  for (samples::Sample& sample : nights.samples.each()) {
    if (sample.shadow == nights.samples.names.of("same") && sample.received_us < 10 * minute) sample.tpot *= 100;
  }
  Options options = open_options_of(nights.samples);
  options.a = {sides::By::replica, nights.samples.names.of("gpu0")};
  options.b = {sides::By::shadow, nights.samples.names.of("fp8")};
  const auto width = [&] {
    const Verdict tpot = verdict_of(compare(nights.samples, options), Metric::tpot);
    return tpot.interval ? tpot.interval->high - tpot.interval->low : 0;
  };
  const double cold = width();
  EXPECT_GT(cold, 0.5);
  const pairs::WarmUp warm{.seconds = 600};
  const auto histories = histories_of(couples_of(nights.samples.all(), nights.samples.names, warm));
  ASSERT_EQ(histories.size(), 1u);
  EXPECT_LT(*histories[0].variance(Metric::tpot), 0.001);
}

TEST(History, OfPairsServesNoSplit) {
  TwinSamples samples;
  for (int i = 0; i < 400; ++i) samples.primary(5 * i * second, i % 2 ? "gpu1" : "gpu0", i % 2 ? "fp8" : "fp16");
  Options options = open_options_of(samples);
  History given;
  for (const Metric metric : metrics_of_minutes)
    given.minutes[static_cast<std::size_t>(metric)] = {statistics::Minutes(600, 0.0)};
  options.histories = {given};
  EXPECT_TRUE(compare(samples, options).history);
  options.histories[0].paired = true;
  EXPECT_FALSE(compare(samples, options).history);
}

/// Where no minute has requests of both sides there is no sequence. The window's blocks alone say nothing, because
/// nobody has said when they are looked at.
TEST(History, SaysNothingWithoutMinutesOfBothSides) {
  TwinSamples samples;
  for (int i = 0; i < 25 * 12; ++i) {
    const bool of_b = i / 12 % 2 == 1;
    samples::Sample& one = samples.primary(5 * i * second, of_b ? "gpu1" : "gpu0", of_b ? "fp8" : "fp16");
    one.tpot = static_cast<float>((of_b ? 0.04 : 0.02) + 0.001 * uniform(static_cast<std::uint64_t>(i), 1));
  }
  Options options = open_options_of(samples);
  History given;
  for (const Metric metric : metrics_of_minutes)
    given.minutes[static_cast<std::size_t>(metric)] = {statistics::Minutes(600, 0.0)};
  options.histories = {given};
  const Comparison comparison = compare(samples, options);
  ASSERT_TRUE(comparison.history);
  const Verdict& tpot = verdict_of(comparison, Metric::tpot);
  EXPECT_FALSE(tpot.sequence);
  EXPECT_FALSE(tpot.interval);
  EXPECT_EQ(tpot.finding, Finding::inconclusive);
}

/// What a program remembers that sees ever the last requests is what one sees that has them all.
TEST(PastCouples, RememberWhatWasAmongTheLastRequests) {
  Nights nights(8, 1);
  const std::vector<samples::Sample> all = nights.samples.all();
  const pairs::WarmUp warm{.seconds = 0};
  PastCouples past;
  for (std::int64_t now = 5; now <= 9 * 60; now += 2) {
    std::vector<samples::Sample> last;
    for (const samples::Sample& sample : all) {
      if (sample.dispatched_us >= (now - 5) * minute && sample.dispatched_us < now * minute) last.push_back(sample);
    }
    past.add(couples_of(last, nights.samples.names, warm), now - 5, now);
  }
  const auto remembered = past.histories(), whole = histories_of(couples_of(all, nights.samples.names, warm));
  ASSERT_EQ(remembered.size(), 1u);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(remembered[0].source, whole[0].source);
  for (const Metric metric : metrics_of_minutes) {
    const auto at = static_cast<std::size_t>(metric);
    ASSERT_EQ(remembered[0].minutes[at].size(), 1u);
    EXPECT_GE(remembered[0].minutes[at][0].size(), 539u);
    EXPECT_TRUE(std::equal(remembered[0].minutes[at][0].begin(), remembered[0].minutes[at][0].end(),
                           whole[0].minutes[at][0].begin()));
  }
  past.add({}, 0, 9 * 60 + PastCouples::most_minutes + 1);
  EXPECT_TRUE(past.histories().empty()) << "a week later it is forgotten";
}

TEST(WithAControl, TheWindowBeginsAtOnceIfBothBeganTogether) {
  for (const int later_s : {0, 50, 70, 700}) {
    TwinSamples samples;
    for (int i = 0; i < 400; ++i) {
      samples::Sample primary = samples.primary(5 * i * second);
      samples.shadow(primary, "same0", "fp16", "same");
      if (5 * i >= later_s) samples.shadow(primary);
    }
    Options options = open_options_of(samples);
    options.warm_up = {.seconds = 600, .kv_tokens = [](auto, auto) { return 1000; }};
    const Comparison comparison = compare(samples, options);
    EXPECT_EQ(comparison.mode, pairs::Mode::control);
    EXPECT_EQ(comparison.window.from_us, (later_s <= 60 ? later_s : later_s + 600) * second) << later_s;
    EXPECT_EQ(comparison.warming > 0, later_s > 60);
  }
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
