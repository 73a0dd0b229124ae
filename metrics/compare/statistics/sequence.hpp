// A mean over minutes, and an interval of it that holds at every look together.
//
// The interval is the normal mixture of Robbins, "Statistical methods related to the law of the iterated logarithm",
// Annals of Mathematical Statistics 41 (1970): the sum of t minutes of variance v keeps within
// sqrt((v t + r) (2 ln(1/alpha) + ln((v t + r) / r))) at all t, but with probability alpha. It is narrowest after half
// an hour. The variance is what the window's own tenths show, widened for their few degrees of freedom by the square of
// t over z; or that of a history, if it is more (drift.hpp).
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "metrics/compare/statistics/window.hpp"

namespace weir::metrics::compare::statistics {

/// No look counts before so many minutes have values.
inline constexpr std::size_t least_minutes = 5;
inline constexpr std::size_t tenths = 10;

struct Sequence {
  double mean = 0, minutes = 0;
  double standard_error = 0, degrees = 9;  ///< Of the mean, by the window's own parts.
  double history_variance = 0;             ///< Of a minute; 0 without a history.

  /// Returns how far the mean may lie from the truth at any moment, with probability 1 - level.
  double reach(double level) const;
  /// Returns the same after `more` times as many minutes of the same kind.
  double reach_after(double more, double level) const;
};

/// Returns mean +- reach, for 95 %.
Interval interval_of(const Sequence& sequence);

/// Returns the least level at which the mean lies beyond a limit by `beyond`: a p value that holds at all looks
/// together. It is 1 where the mean is not beyond.
double p_value_beyond(double beyond, const Sequence& sequence);

/// A mean, and its standard error.
struct Estimate {
  double mean = 0, standard_error = 0, degrees = 0;
};

/// The sums of a figure over a part of the requests: ln(b/a) is that of (b / count_b) / (a / count_a).
struct RatioSums {
  double a = 0, b = 0, count_a = 0, count_b = 0;

  RatioSums& operator+=(const RatioSums& other);
  RatioSums operator-(const RatioSums& other) const;
  double mean_a() const { return count_a > 0 ? a / count_a : 0; }
  double mean_b() const { return count_b > 0 ? b / count_b : 0; }
};

/// The scale of a figure: ln(b/a), b - a of means of logarithms, or b - a of means.
enum class Scale : unsigned char { ratio, difference };

/// Returns the figure of all parts, with the standard error that leaving out each part in turn shows (the jackknife:
/// Shao and Tu, "The Jackknife and Bootstrap", 1995). Returns nothing where a part is needed for the figure to exist.
std::optional<Estimate> jackknife(std::span<const RatioSums> parts, Scale scale);

/// Returns the figure alone; nothing where a side has no values or a mean is not positive.
std::optional<double> figure_of(const RatioSums& sums, Scale scale);

}  // namespace weir::metrics::compare::statistics
