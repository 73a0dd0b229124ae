// The engines and the traffic of the benches in simulated time.
#include <gtest/gtest.h>

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
