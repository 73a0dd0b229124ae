// The text format 0.0.4 of Prometheus: what GET /metrics answers.
//
// prometheus::TextSerializer writes the same page through an ostream: 26 ms of the control thread for twenty replicas,
// against 5 ms here (docs/benchmarks.md).
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace weir::metrics {

/// Counters, gauges and histograms whose last bucket is +Inf; weir has no other kinds.
std::string text_page(const std::vector<prometheus::MetricFamily>& families);

}  // namespace weir::metrics
