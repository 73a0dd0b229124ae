// What weir promises of replicas that die, hang, slow down and return, in simulated time: the real pool in front of
// four engine models, at half of what they can do. tests/bench/failures.cpp prints the same with more loads, and beside
// round robin. It is deterministic by seed.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/bench/failure_figures.hpp"

namespace weir::bench {
namespace {

constexpr std::uint64_t few = 4, many = 20;  ///< A p99 needs many runs; what holds in each needs few.
constexpr double fault = FailureSimulation::fault_at, back = FailureSimulation::back_at;

/// These are the runs of bench_failures, which draws its requests from 6000 entries. No run comes to more than the
/// first 2000 of them.
FailureRuns runs_with(Fault kind, std::uint64_t seeds) {
  std::ifstream file(WEIR_TEST_DATA "/traces/conv.csv");
  const auto trace = std::get<std::vector<TraceEntry>>(lab::load::read_trace(file, 0));
  FailureRuns runs;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto requests = requests_of(trace, 2000, seed);
    const auto part = part_of(trace, 6000, lab::engine::Random(seed).below(trace.size()));
    const double rate_of_part = static_cast<double>(part.size() - 1) / (part.back().at - part.front().at);
    const double rate = 0.5 * capacity_of(four_replicas(1), requests) * rate_of(requests) / rate_of_part;
    FailureSimulation simulation(false, kind, seed, std::nullopt);
    runs.push_back(simulation.serve(requests, rate));
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
  const auto runs = runs_with(Fault::kill, many);
  expect_none_lost(runs);
  EXPECT_LE(longest_until_out(runs), 1);
  EXPECT_LE(p99_by_that_before(runs), 1.2);
  EXPECT_LE(highest_after_return(runs), 1.5);
}

TEST(FailingReplicas, AHungOneIsOutAfterItsProbesTimeOutAndReturnsSlowly) {
  const auto runs = runs_with(Fault::hang, many);
  expect_none_lost(runs);
  EXPECT_LE(longest_until_out(runs), 16) << "5 s of silence, and the time-out of a probe, after its next request";
  EXPECT_LE(p99_by_that_before(runs), 1.2);
  EXPECT_LE(highest_after_return(runs), 1.5);
}

TEST(FailingReplicas, OneAtHalfSpeedHasNoMoreThanItsShareAfterHalfAMinute) {
  const auto runs = runs_with(Fault::half_speed, many);
  expect_none_lost(runs);
  for (const auto& run : runs) EXPECT_LE(run.share_of_ill, 0.5 / 3.5);
  EXPECT_LE(p99_by_that_before(runs), 1.2);
  EXPECT_LE(highest_after_return(runs), 1.5);
}

TEST(FailingReplicas, OneWithAWrongModelIsOutAndNoClientSeesIt) {
  const auto runs = runs_with(Fault::wrong_model, many);
  expect_none_lost(runs);
  EXPECT_LE(longest_until_out(runs), 30);
  EXPECT_LE(highest_after_return(runs), 1.5);
}

TEST(FailingReplicas, OneThatFlapsBreaksOffOnlyWhatHadBegun) {
  const auto runs = runs_with(Fault::flap, few);
  expect_none_lost(runs);
  EXPECT_LE(longest_until_out(runs), 1);
}

TEST(FailingReplicas, ARollingRestartBreaksOffNothing) {
  const auto runs = runs_with(Fault::rolling_restart, few);
  expect_none_lost(runs);
  for (const auto& run : runs) EXPECT_EQ(run.broken, 0u);
}

}  // namespace
}  // namespace weir::bench
