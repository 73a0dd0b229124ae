// The process_* series that every Prometheus client library exports, read from /proc at a scrape.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

namespace weir::metrics::series {

/// A series whose source cannot be read is left out. Costs about 50 us and one file descriptor while it runs.
std::vector<prometheus::MetricFamily> process_families();

}  // namespace weir::metrics::series
