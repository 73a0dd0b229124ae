// A replica of four runs at half speed, under the conversation trace and 0.7 of what the four can do together: there
// the token ledger must be better than other policies. tests/bench/routing.cpp runs it at more loads and with more
// seeds. It is deterministic by seed.
#include <gtest/gtest.h>

#include "lab/plan/simulation.hpp"
#include "metrics/compare/statistics/intervals.hpp"

namespace weir::lab::plan {
namespace {

class PolicyOrder : public testing::TestWithParam<std::uint64_t> {
 protected:
  PolicyOrder() {
    requests_ = requests_of(read_trace_file(WEIR_TEST_DATA "/traces/conv.csv"), 800, GetParam());
    rate_ = 0.7 * capacity_of(setup_.engines, requests_);
  }

  double p99(config::Policy policy) {
    setup_.policy = policy;
    std::vector<double> ttft;
    for (const auto& served : Simulation(setup_).serve(requests_, rate_).requests) ttft.push_back(served.ttft.value());
    return metrics::compare::statistics::quantile(std::span(ttft), 0.99);
  }

  weir::lab::plan::Setup setup_{.engines = four_engines(0.5),
                                .seed = GetParam(),
                                .engine_seed = GetParam() * 101,
                                .probes = false,
                                .endless_queue = true};
  std::vector<TracedRequest> requests_;
  double rate_ = 0;
};

TEST_P(PolicyOrder, LeastQueuedTokensHasTheLowestP99TimeToFirstToken) {
  const double least_queued_tokens = p99(config::Policy::least_queued_tokens);
  EXPECT_LT(least_queued_tokens, p99(config::Policy::least_requests));
  EXPECT_LT(least_queued_tokens, p99(config::Policy::round_robin));
}

INSTANTIATE_TEST_SUITE_P(Seeds, PolicyOrder, testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace weir::lab::plan
