// One of four replicas runs at half speed, under the conversation trace and 0.7 of what the four can do together: there
// the token ledger must be better than other policies. tests/bench/policies.cpp runs it at more loads and with more
// seeds. It is deterministic by seed.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/bench/fleet_simulation.hpp"

namespace weir::bench {
namespace {

class PolicyOrder : public testing::TestWithParam<std::uint64_t> {
 protected:
  PolicyOrder() {
    std::ifstream file(WEIR_TEST_DATA "/traces/conv.csv");
    const auto trace = std::get<std::vector<TraceEntry>>(lab::load::read_trace(file, 0));
    requests_ = requests_of(trace, 800, GetParam());
    rate_ = 0.7 * capacity_of(fleet_, requests_);
  }

  double p99(config::Policy policy) {
    FleetSimulation simulation(fleet_, policy, config::Pool{}.decode_weight, GetParam());
    return quantile(simulation.serve(requests_, rate_).ttft, 0.99);
  }

  Fleet fleet_ = four_replicas(0.5);
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
}  // namespace weir::bench
