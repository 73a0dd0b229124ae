// Reads a page in the text format of Prometheus (version 0.0.4), as weir serves it on /metrics.
//
// Timestamps and exemplars are not read. A line that is none of the format is skipped and counted.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weir::lab::report {

struct Sample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

struct MetricsText {
  std::vector<Sample> samples;
  std::uint64_t unreadable = 0;  ///< Lines.

  /// The sum over all series of that name.
  double sum(std::string_view name) const;
  /// The sums of that name by the values of a label; those of 0 are left out.
  std::map<std::string, double> by_label(std::string_view name, const std::string& label) const;
};

MetricsText read_metrics_text(std::istream& in);

}  // namespace weir::lab::report
