// A histogram that forgets: the buckets of a counting one, of which older observations count less. Its quantiles tell
// what streams that still run show now, which no record of a finished request does. They lie on the straight line
// between the bounds of a bucket.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace weir::proxy::live {

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
