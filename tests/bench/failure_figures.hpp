// What many runs of a failing fleet come to. bench_failures prints it, and a unit test of lab/ holds weir to it.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/bench/failure_simulation.hpp"

namespace weir::bench {

using FailureRuns = std::vector<FailureSimulation::Results>;

/// Returns the 99th percentile of the times to first token of those that arrived from `from` to `to`, over all runs.
inline double p99(const FailureRuns& runs, double from, double to) {
  std::vector<double> ttft;
  for (const auto& run : runs)
    for (const auto& answer : run.answers)
      if (answer.arrived >= from && answer.arrived < to) ttft.push_back(answer.ttft);
  return ttft.empty() ? 0 : quantile(std::move(ttft), 0.99);
}

/// Returns the most that the returned replica held by its peers' mean in any 5 s, all runs together.
inline double highest_after_return(const FailureRuns& runs) {
  double highest = 0;
  for (std::size_t window = 0; window < runs.front().after_return.size(); ++window) {
    double its = 0, peers = 0;
    for (const auto& run : runs) {
      its += run.after_return[window].first;
      peers += run.after_return[window].second;
    }
    if (peers > 0) highest = std::max(highest, its / peers);
  }
  return highest;
}

}  // namespace weir::bench
