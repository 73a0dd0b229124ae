// The families of weir itself: loops, limits, buffer memory, settings, comparisons, build and process. They are the
// same few series however many replicas there are, so prometheus-cpp writes them; those of replicas are TextPage's.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "metrics/series/exposition.hpp"

namespace weir::metrics::series {

/// Returns the families in the order of their names. A family without series is among them, too. The call is made on
/// the scraping thread and calls the functions that `exposition` was given.
std::vector<prometheus::MetricFamily> own_families(const Exposition& exposition);

/// Returns what they mean.
std::vector<Family> families_of_weir(const Exposition& exposition);

}  // namespace weir::metrics::series
