#include "lab/plan/traffic.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "lab/plan/simulation.hpp"

namespace weir::lab::plan {
namespace {

Results served(const std::vector<TracedRequest>& requests) {
  Setup setup{.engines = four_engines(), .probes = false, .endless_queue = true};
  return Simulation(setup).serve(requests, rate_of(requests));
}

bool has_first_token(const Served& one) { return one.ttft.has_value(); }

/// No rate changes such traffic, and its own is neither infinite nor unknown.
TEST(Traffic, ThatAllComesAtOnceIsServed) {
  auto requests = requests_of(read_trace_file(WEIR_TEST_DATA "/traces/conv.csv"), 60, 1);
  EXPECT_GT(rate_of(requests), 0);
  for (TracedRequest& request : requests) request.at = 7;
  EXPECT_EQ(rate_of(requests), 1);
  EXPECT_TRUE(std::ranges::all_of(served(requests).requests, has_first_token));
}

TEST(Traffic, OfOneConversationIsServedTurnByTurn) {
  auto requests = requests_of(read_trace_file(WEIR_TEST_DATA "/traces/conv.csv"), 60, 1);
  for (std::size_t i = 1; i < requests.size(); ++i) requests[i].parent = i - 1;
  EXPECT_EQ(rate_of(requests), 1);
  const Results results = served(requests);
  ASSERT_EQ(results.requests.size(), requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(results.requests[i].ttft) << i;
    if (i > 0) EXPECT_GT(results.requests[i].arrived, results.requests[i - 1].arrived);
  }
  requests.resize(1);
  EXPECT_EQ(rate_of(requests), 1);
  EXPECT_TRUE(std::ranges::all_of(served(requests).requests, has_first_token));
}

}  // namespace
}  // namespace weir::lab::plan
