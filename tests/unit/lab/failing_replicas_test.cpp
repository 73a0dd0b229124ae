// The promises of weir about replicas that die, hang, slow down and return, in simulated time: the real pool in front
// of four engine models, at half of what they can do. tests/bench/failures.cpp prints the same with more loads, and
// beside round robin. It is deterministic by seed.
#include <gtest/gtest.h>

#include "lab/engine/words.hpp"
#include "tests/bench/plan/faults.hpp"

namespace weir::lab::plan {
namespace {

constexpr std::uint64_t few = 4, many = 20;  ///< A p99 needs many runs; what holds in each needs few.
constexpr double fault = FaultRun::fault_at, back = FaultRun::back_at;

/// The runs of bench_failures, which draws its requests from 6000 entries. No run comes to more than the
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

/// No request fails of which nothing has reached its client, but one in 10,000 where another replica's opinion has to
/// be asked: that takes a retry from the budget, which has three where little is in flight.
void expect_none_lost(const std::vector<FaultRun>& runs, bool asks_opinions) {
  std::size_t failed = 0, requests = 0;
  for (const auto& run : runs) {
    failed += run.results.failed;
    requests += run.results.requests.size();
    EXPECT_GT(run.results.requests.size(), 1000u);
    EXPECT_EQ(run.results.refused + run.stuck, 0u);
  }
  EXPECT_LE(failed * 10'000, asks_opinions ? requests : 0);
}

double longest_until_out(const std::vector<FaultRun>& runs) {
  double longest = 0;
  for (const auto& run : runs) longest = std::max(longest, run.out_after.value_or(1e9));
  return longest;
}

double p99_by_that_before(const std::vector<FaultRun>& runs) {
  return p99_ttft(runs, fault + 10, back) / p99_ttft(runs, 20, fault);
}

struct Promise {
  const char* name;
  Fault fault;
  std::uint64_t seeds;
  double longest_until_out;  ///< 5 s of silence, and the time-out of a probe, after its next request, where it hangs.
  double p99_by_that_before, after_return;
};

class FailingReplicas : public testing::TestWithParam<Promise> {};

constexpr double any = 1e9;

/// A replica that failed is out soon, tails stay as they were, and it returns slowly. Of one that flaps only what had
/// begun is broken off. One at half speed is not put out.
TEST_P(FailingReplicas, LoseNothingAndAreOutSoonAndReturnSlowly) {
  const Promise& promise = GetParam();
  const auto runs = runs_with(promise.fault, promise.seeds);
  expect_none_lost(runs, promise.fault == Fault::wrong_model);
  if (promise.longest_until_out < any) EXPECT_LE(longest_until_out(runs), promise.longest_until_out);
  if (promise.p99_by_that_before < any) EXPECT_LE(p99_by_that_before(runs), promise.p99_by_that_before);
  if (promise.after_return < any) EXPECT_LE(highest_after_return(runs), promise.after_return);
  for (const auto& run : runs) {
    if (promise.fault == Fault::half_speed) EXPECT_LE(run.share_of_ill, 0.5 / 3.5) << "no more than its share";
    if (promise.fault == Fault::rolling_restart) EXPECT_EQ(run.results.broken, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, FailingReplicas,
                         testing::Values(Promise{"killed", Fault::kill, many, 1, 1.2, 1.5},
                                         Promise{"hung", Fault::hang, many, 16, 1.2, 1.5},
                                         Promise{"at_half_speed", Fault::half_speed, many, any, 1.5, 1.5},
                                         Promise{"with_a_wrong_model", Fault::wrong_model, many, 30, any, 1.5},
                                         Promise{"that_flap", Fault::flap, few, 1, any, any},
                                         Promise{"restarted_in_turn", Fault::rolling_restart, few, any, any, any}),
                         [](const auto& promise) { return promise.param.name; });

}  // namespace
}  // namespace weir::lab::plan
