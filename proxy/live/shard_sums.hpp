// Sums over the shards of the loops: of counters, and of histograms.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "metrics/series/histogram.hpp"

namespace weir::proxy::live {

/// The shards have times in these.
inline constexpr double nanoseconds = 1e9;

/// `pick` returns the counter of a shard.
template <class Shards, class Pick>
double sum_of(const Shards& shards, Pick pick) {
  std::uint64_t sum = 0;
  for (const auto& shard : shards) sum += pick(*shard).value();
  return static_cast<double>(sum);
}

/// Adds up a histogram of the loops into `counts`. After a reload the loops take other bounds one after the other.
template <class Shards, class Pick>
void add_histograms(const Shards& shards, Pick pick, std::vector<std::uint64_t>& counts) {
  const auto bounds = pick(*shards.front()).bounds();
  counts.resize(bounds.size() + 1, 0);
  for (const auto& shard : shards) {
    const metrics::series::Histogram& histogram = pick(*shard);
    const bool same = histogram.bounds().data() == bounds.data();
    for (std::size_t i = 0; i <= histogram.bounds().size(); ++i)
      counts[same ? i : histogram.place(bounds, i)] += histogram.bucket(i);
  }
}

inline std::optional<double> scaled(std::optional<double> value, double unit) {
  return value ? std::optional(*value / unit) : std::nullopt;
}

/// Returns the part as a share of all, at most 1; nothing without any.
inline std::optional<double> share_of(double part, double all) {
  return all > 0 ? std::optional(std::min(1.0, part / all)) : std::nullopt;
}

}  // namespace weir::proxy::live
