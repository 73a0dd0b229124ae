// The medians of the last minute, from the histograms that a scrape shows: the difference of what they hold now and
// what they held about 60 s ago. Within a bucket the values are taken to be spread evenly.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "metrics/moment.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/fleet/world.hpp"

namespace weir::proxy::control {

/// The counts of a histogram's buckets, over all loops.
struct BucketCounts {
  std::vector<std::uint64_t> bounds;
  std::vector<std::uint64_t> counts;  ///< One more than bounds: the last is of what is above them all.
};

/// Returns the value below which a share `q` of what came between the two lies, in the histogram's unit. Nothing if
/// nothing came, or if the bounds have changed.
std::optional<double> quantile_between(const BucketCounts& before, const BucketCounts& now, double q);

class LastMinute {
 public:
  static constexpr std::chrono::seconds sample_every{5}, window{60};

  /// The series belong to this exposition.
  explicit LastMinute(const metrics::series::Exposition& exposition) : exposition_(exposition) {}

  /// Notes what the histograms of each replica hold. To be called every `sample_every`.
  void sample(const fleet::World& world, metrics::Moment now);

  struct Medians {
    std::optional<double> ttft, tpot;  ///< In seconds.
  };
  Medians of(const metrics::series::ReplicaSeries& series) const;

 private:
  struct Sample {
    metrics::Moment at;
    BucketCounts ttft, tpot;
  };
  static Sample sample_of(const metrics::series::ReplicaSeries& series, metrics::Moment now);

  const metrics::series::Exposition& exposition_;
  std::map<const metrics::series::ReplicaSeries*, std::deque<Sample>> samples_;
};

}  // namespace weir::proxy::control
