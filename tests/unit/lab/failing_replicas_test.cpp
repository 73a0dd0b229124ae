// What weir promises of replicas that die, hang, slow down and return, in simulated time: the real pool in front of
// four engine models, at half of what they can do. tests/bench/failures.cpp prints the same with more loads, and beside
// round robin. It is deterministic by seed.
#include <gtest/gtest.h>

#include "lab/engine/random.hpp"
#include "lab/plan/faults.hpp"

namespace weir::lab::plan {
namespace {

constexpr std::uint64_t few = 4, many = 20;  ///< A p99 needs many runs; what holds in each needs few.
constexpr double fault = FaultRun::fault_at, back = FaultRun::back_at;

/// These are the runs of bench_failures, which draws its requests from 6000 entries. No run comes to more than the
/// first 2000 of them.
std::vector<FaultRun> runs_with(Fault kind, std::uint64_t seeds) {
  const auto trace = read_trace_file(WEIR_TEST_DATA "/traces/conv.csv");
  std::vector<FaultRun> runs;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto requests = requests_of(trace, 2000, seed);
    const auto part = part_of(trace, 6000, engine::Random(seed).below(trace.size()));
    const double rate_of_part = static_cast<double>(part.size() - 1) / (part.back().at - part.front().at);
    const double rate = 0.5 * capacity_of(four_engines(), requests) * rate_of(requests) / rate_of_part;
    runs.push_back(run_with(kind, false, seed, requests, rate));
  }
  return runs;
}

/// No request fails of which nothing has reached its client.
void expect_none_lost(const std::vector<FaultRun>& runs) {
  for (const auto& run : runs) {
    EXPECT_GT(run.results.requests.size(), 1000u);
    EXPECT_EQ(run.results.failed + run.results.refused + run.stuck, 0u);
  }
}

double longest_until_out(const std::vector<FaultRun>& runs) {
  double longest = 0;
  for (const auto& run : runs) longest = std::max(longest, run.out_after.value_or(1e9));
  return longest;
}

double p99_by_that_before(const std::vector<FaultRun>& runs) { return p99_ttft(runs, fault + 10, back) / p99_ttft(runs, 20, fault); }

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

// A second opinion takes a retry from the budget, which has three where little is in flight.
TEST(FailingReplicas, OneWithAWrongModelIsOutAndHardlyAnyClientSeesIt) {
  const auto runs = runs_with(Fault::wrong_model, many);
  std::size_t failed = 0, requests = 0;
  for (const auto& run : runs) {
    failed += run.results.failed;
    requests += run.results.requests.size();
    EXPECT_EQ(run.results.refused + run.stuck, 0u);
  }
  EXPECT_LE(failed * 10'000, requests);
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
  for (const auto& run : runs) EXPECT_EQ(run.results.broken, 0u);
}

}  // namespace
}  // namespace weir::lab::plan
