// Reads a page in the text format of Prometheus, as weir serves it on /metrics. A line that is not of the format is
// skipped and counted.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/series/text_sample.hpp"

namespace weir::lab::report {

struct MetricsText {
  std::vector<metrics::series::Sample> samples;
  std::uint64_t unreadable = 0;  ///< Lines.

  /// Returns the sum over all series of that name.
  double sum(std::string_view name) const;
  /// Returns the sums of that name by the values of a label; sums of 0 are left out.
  std::map<std::string, double> by_label(std::string_view name, const std::string& label) const;
};

MetricsText read_metrics_text(std::istream& in);

}  // namespace weir::lab::report
