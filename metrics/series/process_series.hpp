// Reads the process_* series, which every Prometheus client library exports, from /proc at a scrape.
#pragma once

#include "metrics/series/text_page.hpp"

namespace weir::metrics::series {

/// Leaves out a series whose source cannot be read. A call costs about 50 us and one file descriptor while it runs.
void add_process_series(TextPage& page);

}  // namespace weir::metrics::series
