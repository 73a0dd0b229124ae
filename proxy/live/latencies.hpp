// The TTFT and TPOT of the last requests of a replica or a pool, and their quantiles. A plain value without a clock.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "metrics/moment.hpp"

namespace weir::proxy::live {

class Latencies {
 public:
  /// The requests of the last minute count, and no more of them than this. 16 bytes each.
  static constexpr std::size_t most = 1000;
  static constexpr std::chrono::seconds minute{60};
  /// Fewer values have no p95.
  static constexpr std::size_t least_for_p95 = 20;

  struct Quantiles {
    std::optional<double> ttft_p50, ttft_p95, tpot_p50;  ///< In seconds.
  };

  /// Takes a request that ended at `now`; an absent figure counts nowhere.
  void add(std::optional<double> ttft, std::optional<double> tpot, metrics::Moment now);
  /// Returns the quantiles of the requests that ended within `back` before now. Costs O(of these).
  Quantiles quantiles(metrics::Moment now, std::chrono::seconds back = minute) const;

 private:
  struct One {
    metrics::Moment ended;
    float ttft, tpot;  ///< NaN is unknown.
  };
  std::vector<One> ring_;
  std::size_t next_ = 0;
};

// A histogram that forgets: the buckets of a counting one, of which older observations count less. Its quantiles tell
// what streams that still run show now, which no record of a finished request does. They lie on the straight line
// between the bounds of a bucket.

/// Observations of the last seconds fade to 1/e in so many seconds.
inline constexpr double recent_seconds = 10, recent_ttft_seconds = 15;

/// Returns how much an observation counts after `passed` seconds that fades to 1/e in `memory_seconds`.
inline double fade_in(double memory_seconds, std::size_t passed) {
  return std::exp(-static_cast<double>(passed) / memory_seconds);
}

class Recent {
 public:
  /// Takes the counts of all observations so far, one for each bucket alone, the last of them above all bounds.
  /// `bounds` may differ from those before. Earlier observations count `fade` times as much as they did, and those that
  /// are new count for `most` together at most: where fewer come than before, the many old ones do not hide them.
  void take(std::span<const std::uint64_t> bounds, std::span<const std::uint64_t> counts, double fade,
            double most = std::numeric_limits<double>::infinity());

  /// Returns how many observations came with the last take().
  double came() const { return came_; }
  /// Returns how many observations there are, each by its weight.
  double count() const;
  /// Returns the quantile `q`, in the unit of the bounds; nothing without observations.
  std::optional<double> quantile(double q) const;
  /// Returns the least bound that is not below the quantile; nothing without observations, infinity above all bounds.
  std::optional<double> bound_of_quantile(double q) const;

 private:
  std::vector<std::uint64_t> bounds_, before_;
  std::vector<double> weights_;
  double came_ = 0;
};

}  // namespace weir::proxy::live
