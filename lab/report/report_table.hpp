// Reports of several loads side by side: what differs between runs of the same requests.
#pragma once

#include <ostream>
#include <vector>

#include "lab/report/observers.hpp"

namespace weir::lab::report {

/// TTFT as clients saw it, a row a run; then its tail against the first run's, and how many requests that stands on:
/// p99, or p95 where a run has fewer than 100 requests.
void print_reports(std::ostream& out, const std::vector<Observed>& runs);

}  // namespace weir::lab::report
