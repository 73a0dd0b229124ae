// Verdicts on twins in simulated time: a small part of what tests/bench/twins.cpp shows with a thousand windows. It is
// deterministic by seed.
#include <gtest/gtest.h>

#include "tests/bench/tally.hpp"
#include "tests/bench/twin_simulation.hpp"

namespace weir::bench {
namespace {

constexpr double half_hour = 1800;

const std::vector<TraceEntry>& trace() {
  static const auto read = read_trace_file(WEIR_TEST_DATA "/traces/conv.csv");
  return read;
}

double rate() {
  static const double capacity = capacity_of(EngineSettings{}, trace());
  return 0.6 * capacity;
}

std::vector<Arrival> half_hour_of(std::uint64_t seed) { return arrivals_of(trace(), rate(), half_hour, seed); }

Comparison compared(const Engine& candidate, std::span<const Arrival> arrivals, std::uint64_t seed) {
  const auto a = serve(Engine{}, {}, trace(), arrivals, seed_of(seed, 101));
  const auto b = serve(candidate, {}, trace(), arrivals, seed_of(seed, 102));
  return twins(arrivals, a, b).judge(half_hour);
}

const Verdict& verdict_of(const Comparison& comparison, Metric metric) {
  return *std::ranges::find(comparison.verdicts, metric, &Verdict::metric);
}

TEST(TwinVerdicts, AnEqualTwinIsSeldomCalledDifferent) {
  constexpr std::size_t windows = 12;
  Tally tally;
  for (std::uint64_t w = 0; w < windows; ++w) {
    const Comparison comparison = compared({}, half_hour_of(w), 1000 + w);
    ASSERT_EQ(comparison.state, compare::comparison::State::final);
    ASSERT_EQ(comparison.verdicts.size(), 11u);
    for (const Verdict& verdict : comparison.verdicts) {
      // The simulated answers have no gaps of their own.
      const bool of_gaps = verdict.metric == Metric::longest_gap || verdict.metric == Metric::freezes;
      EXPECT_EQ(verdict.effect && !verdict.withheld, !of_gaps) << name_of(verdict.metric);
    }
    tally.add(comparison);
    tally.check(comparison, Metric::tpot, 0);
  }
  EXPECT_LE(tally.families(), 1u);
  EXPECT_LE(tally.tails(), 1u);
  EXPECT_GE(tally.covered(Metric::tpot), windows - 2);
  EXPECT_GT(tally.reach(Metric::output_tokens), 0) << "Both sides drew the same lengths.";
  EXPECT_NEAR(tally.estimate(Metric::tpot), 0, 1);
  EXPECT_GT(tally.found(Metric::tpot, Finding::equivalent), 0u);
  EXPECT_GT(tally.pairs(), 3500);
}

TEST(TwinVerdicts, AStepFivePercentLongerIsFoundAndItsIntervalHoldsTheTruth) {
  constexpr std::size_t windows = 10, runs = 8;
  Engine candidate;
  candidate.step = 1.05;
  const auto arrivals = half_hour_of(1);
  double truth = 0;
  for (std::uint64_t run = 0; run < runs; ++run) {
    truth += verdict_of(compared(candidate, arrivals, 2000 + run), Metric::tpot).effect->mean / runs;
  }
  EXPECT_GT(truth, 0.06) << "Slower steps gather larger batches, so the effect is above that of a step.";
  EXPECT_LT(truth, 0.10);
  Tally tally;
  for (std::uint64_t w = 0; w < windows; ++w) {
    const Comparison comparison = compared(candidate, arrivals, 3000 + w);
    tally.add(comparison);
    tally.check(comparison, Metric::tpot, truth);
  }
  EXPECT_GE(tally.found(Metric::tpot, Finding::worse), windows - 2);
  EXPECT_GE(tally.covered(Metric::tpot), windows - 3);
}

TEST(TwinVerdicts, StallsShowInTheTailsThoughTheMedianStepIsTheSame) {
  Engine candidate;
  candidate.stall = 5;
  candidate.stall_every = 20;
  const Comparison comparison = compared(candidate, half_hour_of(1), 4000);
  for (const Metric tail : {Metric::ttft_tail, Metric::tpot_tail}) {
    EXPECT_EQ(verdict_of(comparison, tail).finding, Finding::worse);
    EXPECT_FALSE(verdict_of(comparison, tail).withheld);
  }
}

TEST(TwinVerdicts, TheTailsTellWhatAnEqualMedianHides) {
  const auto arrivals = half_hour_of(1);
  Engine candidate;
  candidate.stall = 50;
  candidate.stall_every = 200;
  candidate = with_usual_tpot(candidate, trace(), arrivals, 1);
  EXPECT_LT(candidate.step, 0.9);
  Tally tally;
  for (std::uint64_t w = 0; w < 4; ++w) tally.add(compared(candidate, half_hour_of(w), 5000 + w));
  EXPECT_EQ(tally.found(Metric::tpot, Finding::worse), 0u);
  EXPECT_EQ(tally.found(Metric::ttft_tail, Finding::worse), 4u);
}

TEST(TwinVerdicts, ASampledShadowWouldBeCalledBetterAndGetsNoVerdict) {
  for (std::uint64_t w = 0; w < 3; ++w) {
    const auto arrivals = arrivals_of(trace(), 4 * rate(), half_hour, w);
    Sampled samples = sampled(Engine{}, {}, trace(), arrivals, 6000 + w);
    const Comparison comparison = samples.all.judge(half_hour);
    ASSERT_EQ(comparison.notes.front().code, "load_differs");
    for (const Metric metric : {Metric::slo, Metric::ttft, Metric::tpot}) {
      EXPECT_TRUE(verdict_of(comparison, metric).withheld);
    }
    EXPECT_FALSE(verdict_of(comparison, Metric::output_tokens).withheld);

    samples.mirrored.options.same_load = true;
    const Comparison forced = samples.mirrored.judge(half_hour);
    EXPECT_EQ(verdict_of(forced, Metric::tpot).finding, Finding::better);
    EXPECT_LT(*verdict_of(forced, Metric::tpot).estimate, -0.2);
  }
}

TEST(DriftingEngine, SpeedHasTheDeviationAndTheMemoryOfItsDrift) {
  constexpr std::size_t count = 200'000;
  Speed speed({.sd = 0.02, .time_s = 60}, 1);
  std::vector<double> values;
  for (std::size_t s = 0; s < count; ++s) values.push_back(speed.at(static_cast<double>(s)) - 1);
  double squares = 0, apart = 0;
  for (std::size_t s = 60; s < count; ++s) {
    squares += values[s] * values[s];
    apart += values[s] * values[s - 60];
  }
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.001);
  EXPECT_NEAR(apart / squares, std::exp(-1), 0.05);
}

TEST(DriftingEngine, AnIdleOneAnswersInTheModelsTimeAndALongerStepTakesLonger) {
  Engine engine;
  engine.settings.jitter = 0;
  const std::vector<Arrival> arrivals{{0, 100}, {60, 100}};
  const std::vector<TraceEntry> lengths{{0, 100, 17}, {60, 100, 17}};
  const Drift none{.sd = 0, .time_s = 60};
  const auto answers = serve(engine, none, lengths, arrivals, 1);
  const auto& settings = engine.settings;
  const double first = 1e-9 * static_cast<double>((settings.step_base + 100 * settings.per_prefill_token).count());
  EXPECT_NEAR(answers[0].ttft, first, 1e-6);
  EXPECT_NEAR(answers[1].ttft, first, 1e-6);
  EXPECT_EQ(answers[0].output_tokens, 17u);
  EXPECT_NEAR(answers[0].e2e, answers[0].ttft + 16 * answers[0].tpot, 1e-9);
  EXPECT_EQ(answers[0].in_flight_at_start, 0u);
  EXPECT_NEAR(answers[0].in_flight_mean, 1, 1e-6);
  engine.step = 1.5;
  EXPECT_NEAR(serve(engine, none, lengths, arrivals, 1)[1].tpot, 1.5 * answers[1].tpot, 1e-9);
}

TEST(DriftingEngine, StepsFollowTheSpeedOfTheGpu) {
  Engine engine;
  engine.settings.jitter = 0;
  const std::vector<Arrival> arrivals{{0, 100}, {3600, 100}};
  const std::vector<TraceEntry> lengths{{0, 100, 17}, {60, 100, 17}};
  const auto steady = serve(engine, {.sd = 0, .time_s = 60}, lengths, arrivals, 1);
  const auto drifting = serve(engine, {.sd = 0.02, .time_s = 60}, lengths, arrivals, 1);
  EXPECT_NEAR(steady[0].tpot, steady[1].tpot, 1e-9);
  EXPECT_GT(std::abs(drifting[1].tpot / drifting[0].tpot - 1), 1e-3);
  EXPECT_NEAR(drifting[1].tpot / steady[1].tpot, 1, 0.08);
}

TEST(DriftingEngine, CountsWhatWasInFlightBesideARequest) {
  const std::vector<TraceEntry> lengths{{0, 100, 50}, {1, 100, 50}};
  const std::vector<Arrival> together{{0, 100}, {0, 100}};
  const auto answers = serve({}, {.sd = 0, .time_s = 60}, lengths, together, 1);
  EXPECT_EQ(answers[1].in_flight_at_start, 1u);
  EXPECT_GT(answers[1].in_flight_mean, 1.9);
  EXPECT_LE(answers[1].in_flight_mean, 2);
}

TEST(Traffic, APartGoesOnAtTheStartOfTheTrace) {
  const std::vector<TraceEntry> three{{0, 10, 1}, {2, 20, 2}, {4, 30, 3}};
  const std::vector<TraceEntry> expected{{4, 30, 3}, {6, 10, 1}, {8, 20, 2}, {10, 30, 3}};
  EXPECT_EQ(part_of(three, 4, 2), expected);
}

TEST(Traffic, ArrivalsLastAsLongAsTheWindowNeeds) {
  const auto arrivals = half_hour_of(7);
  EXPECT_EQ(arrivals.front().at, 0);
  EXPECT_NEAR(arrivals.back().at, warm_s + half_hour + beyond_s, 1e-6);
  EXPECT_NEAR(static_cast<double>(arrivals.size()) / arrivals.back().at, rate(), 0.01);
  EXPECT_NE(half_hour_of(8).at(1).prompt_tokens, arrivals.at(1).prompt_tokens);
}

}  // namespace
}  // namespace weir::bench
