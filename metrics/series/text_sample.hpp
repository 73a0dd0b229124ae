// Reads one line of a page in the text format of Prometheus (version 0.0.4), as weir and the engines serve it on
// /metrics.
//
// Timestamps and exemplars are not read.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace weir::metrics::series {

struct Sample {
  std::string name;
  std::map<std::string, std::string, std::less<>> labels;
  double value = 0;

  /// Returns "" if there is no such label.
  std::string_view label(std::string_view key) const;
};

/// Returns nothing if the line is not of the format. The caller skips empty lines and comments.
std::optional<Sample> read_sample(std::string_view line);

}  // namespace weir::metrics::series
