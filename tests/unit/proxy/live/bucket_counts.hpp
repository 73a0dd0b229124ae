// The buckets of a histogram as plain counts.
#pragma once

#include <cstdint>
#include <vector>

#include "metrics/series/shard.hpp"

namespace weir::proxy::live {

inline std::vector<std::uint64_t> counts_of(const metrics::series::Histogram& histogram) {
  std::vector<std::uint64_t> counts;
  for (std::size_t i = 0; i <= histogram.bounds().size(); ++i) counts.push_back(histogram.bucket(i));
  return counts;
}

}  // namespace weir::proxy::live
