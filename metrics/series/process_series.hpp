// Reads the process_* series, which every Prometheus client library exports, from /proc at a scrape.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

namespace weir::metrics::series {

/// Leaves out a series whose source cannot be read. A call costs about 50 us and one file descriptor while it runs.
std::vector<prometheus::MetricFamily> process_families();

}  // namespace weir::metrics::series
