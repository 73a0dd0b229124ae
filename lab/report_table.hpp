// Reports of several loads side by side: what differs between runs of the same requests.
#pragma once

#include <ostream>
#include <vector>

#include "lab/observers.hpp"

namespace weir::lab {

/// TTFT as clients saw it, a row a run. p99 only where it stands on 100 requests, and a line that says so where not.
void print_reports(std::ostream& out, const std::vector<Observed>& runs);

}  // namespace weir::lab
