// A window is cut into ten equal blocks. Each block gives one value, and the ten values give an estimate with an
// interval. The unit is the block because requests that are neighbours in time are not independent.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace weir::metrics::compare::statistics {

inline constexpr std::size_t block_count = 10;

/// NaN stands for a block without values.
using BlockValues = std::array<double, block_count>;

/// Wall clock, in microseconds since 1970. `to_us` is outside.
struct Window {
  std::int64_t from_us = 0, to_us = 0;

  bool holds(std::int64_t at_us) const { return at_us >= from_us && at_us < to_us; }
  /// `at_us` lies in the window.
  std::size_t block_of(std::int64_t at_us) const;
  std::int64_t begin_of(std::size_t block) const;
  double seconds() const { return to_us > from_us ? static_cast<double>(to_us - from_us) * 1e-6 : 0.0; }
  /// True of a window such as that of a single pair, which has neither blocks nor rates.
  bool is_moment() const { return seconds() < 1; }
  double block_s() const { return seconds() / static_cast<double>(block_count); }
};

/// A value at the moment when its request was sent to the primary.
struct Point {
  std::int64_t at_us = 0;
  double value = 0;
};

/// Returns each block's median. Points outside the window and values that are not finite are left out.
BlockValues block_medians(std::span<const Point> points, const Window& window);

/// A mean and how sure it is.
struct Estimate {
  double mean = 0, standard_error = 0, degrees = 0;
};

struct Interval {
  double low = 0, high = 0;
};

/// Returns nothing unless every block has a value.
std::optional<Estimate> estimate_of(const BlockValues& blocks);
/// Returns mean +- t * standard error, for 95 % over so many looks together.
Interval interval_of(const Estimate& estimate, unsigned looks = 1);
/// Returns the mean of the blocks that have a value; NaN if none has.
double mean_of(const BlockValues& blocks);

/// Returns how long a block has to be: `least` seconds, or twice the slower side's p99 duration.
double needed_block_s(double least, double slower_p99_s);

/// Returns the medians of steps of a minute from the window's beginning; NaN where a minute has no points.
std::vector<double> minute_medians(std::span<const Point> points, const Window& window);
/// Returns the mean of each tenth of the minutes, of those that have a value; NaN where none has.
BlockValues block_means(std::span<const double> minutes);
/// Returns the lag-1 autocorrelation, over the neighbours of which both are known; NaN if it is undefined.
double lag_one_autocorrelation(std::span<const double> values);

}  // namespace weir::metrics::compare::statistics
