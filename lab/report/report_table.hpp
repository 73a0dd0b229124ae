// Shows the reports of several loads side by side: what differs between runs of the same requests.
#pragma once

#include <ostream>
#include <vector>

#include "lab/report/observers.hpp"

namespace weir::lab::report {

/// Prints TTFT as clients saw it, a row a run. Then it prints each tail against the first run's, with the number of
/// requests behind it: p99, or p95 if a run has fewer than 100 requests.
void print_reports(std::ostream& out, const std::vector<Observed>& runs);

}  // namespace weir::lab::report
