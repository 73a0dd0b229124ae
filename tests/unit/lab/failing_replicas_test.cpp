// What weir promises of replicas that die, hang, slow down and return, in simulated time: the real pool in front of
// four engine models, at half of what they can do. tests/bench/failures.cpp prints the same with more loads, and beside
// round robin. It is deterministic by seed.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/bench/failure_figures.hpp"

namespace weir::bench {
namespace {

constexpr std::uint64_t seeds = 20;
constexpr double fault = FailureSimulation::fault_at, back = FailureSimulation::back_at;

FailureRuns runs_with(Fault kind) {
  std::ifstream file(WEIR_TEST_DATA "/traces/conv.csv");
  const auto trace = std::get<std::vector<TraceEntry>>(lab::load::read_trace(file, 0));
  FailureRuns runs;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto requests = requests_of(trace, 6000, seed);
    const double capacity = capacity_of(four_replicas(1), std::span(requests).first(2000));
    FailureSimulation simulation(false, kind, seed, std::nullopt);
    runs.push_back(simulation.serve(requests, 0.5 * capacity));
  }
  return runs;
}

/// No request fails of which nothing has reached its client.
void expect_none_lost(const FailureRuns& runs) {
  for (const auto& run : runs) {
    EXPECT_GT(run.answers.size(), 1000u);
    EXPECT_EQ(run.failed + run.refused + run.stuck, 0u);
  }
}

double longest_until_out(const FailureRuns& runs) {
  double longest = 0;
  for (const auto& run : runs) longest = std::max(longest, run.out_after.value_or(1e9));
  return longest;
}

double p99_by_that_before(const FailureRuns& runs) { return p99(runs, fault + 10, back) / p99(runs, 20, fault); }

TEST(FailingReplicas, AKilledOneIsOutAfterASecondAndReturnsSlowly) {
  const auto runs = runs_with(Fault::kill);
  expect_none_lost(runs);
  EXPECT_LE(longest_until_out(runs), 1);
  EXPECT_LE(p99_by_that_before(runs), 1.2);
  EXPECT_LE(highest_after_return(runs), 1.5);
}

TEST(FailingReplicas, AHungOneIsOutAfterTenSecondsAndReturnsSlowly) {
  const auto runs = runs_with(Fault::hang);
  expect_none_lost(runs);
  EXPECT_LE(longest_until_out(runs), 10);
  EXPECT_LE(p99_by_that_before(runs), 1.2);
  EXPECT_LE(highest_after_return(runs), 1.5);
}

TEST(FailingReplicas, OneAtHalfSpeedHasNoMoreThanItsShareAfterHalfAMinute) {
  const auto runs = runs_with(Fault::half_speed);
  expect_none_lost(runs);
  for (const auto& run : runs) EXPECT_LE(run.share_of_ill, 0.5 / 3.5);
  EXPECT_LE(p99_by_that_before(runs), 1.2);
  EXPECT_LE(highest_after_return(runs), 1.5);
}

TEST(FailingReplicas, OneWithAWrongModelIsOutAndNoClientSeesIt) {
  const auto runs = runs_with(Fault::wrong_model);
  expect_none_lost(runs);
  EXPECT_LE(longest_until_out(runs), 30);
  EXPECT_LE(highest_after_return(runs), 1.5);
}

TEST(FailingReplicas, OneThatFlapsBreaksOffOnlyWhatHadBegun) {
  const auto runs = runs_with(Fault::flap);
  expect_none_lost(runs);
  EXPECT_LE(longest_until_out(runs), 1);
}

TEST(FailingReplicas, ARollingRestartBreaksOffNothing) {
  const auto runs = runs_with(Fault::rolling_restart);
  expect_none_lost(runs);
  for (const auto& run : runs) EXPECT_EQ(run.broken, 0u);
}

}  // namespace
}  // namespace weir::bench
