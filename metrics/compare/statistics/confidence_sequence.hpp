// An interval of a mean over minutes that holds at every look together, where the variance is known from elsewhere:
// from minutes in which both sides ran one configuration (A/A). A drift that lasts longer than a window cannot be seen
// in it, but in such minutes it can.
//
// The interval is the normal mixture of Robbins, "Statistical methods related to the law of the iterated logarithm",
// Annals of Mathematical Statistics 41 (1970): the sum of t minutes keeps within
// sqrt((v t + r) (2 ln(1/alpha) + ln((v t + r) / r))) at all t, but with probability alpha. v is the long-run variance
// of a minute, so that neighbouring minutes may be alike.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "metrics/compare/statistics/blocks.hpp"

namespace weir::metrics::compare::statistics {

/// A value for each minute in order of time; NaN where there is none.
using Minutes = std::vector<double>;

/// Returns how many minutes have a value.
std::size_t known_minutes(std::span<const double> minutes);

/// Returns the variance of a sum of minutes, for one minute: the greatest of L times the variance of the means of
/// batches of L minutes, for L = 5 and 30. A batch counts if half of its minutes have a value. Each of the series
/// varies around its own mean. Returns nothing with fewer than sixteen batches of 30 minutes, which are eight hours.
std::optional<double> long_run_variance(std::span<const Minutes> series);

/// The sum of `minutes` minutes over their number, with the variance of each.
struct Sequence {
  double mean = 0, minutes = 0, variance = 0;
};

/// No look counts before so many minutes have values.
inline constexpr std::size_t least_minutes = 5;

/// Returns the sequence of a window's minutes; nothing before least_minutes. Its variance is that of the history, or
/// what the window's own `blocks` show, if that is more.
std::optional<Sequence> sequence_of(std::span<const double> minutes, double history_variance,
                                    const std::optional<Estimate>& blocks);

/// Returns mean +- what the mean keeps within at all looks together, with 95 %.
Interval interval_of(const Sequence& sequence);

/// Returns an anytime-valid p value of the hypothesis that the true mean lies within a limit which `sequence.mean`
/// exceeds by `beyond`: at any moment it is `p` or less with probability `p` at most, for limits on both sides
/// together. It is 1 if `beyond` is not positive.
double p_value_beyond(double beyond, const Sequence& sequence);

}  // namespace weir::metrics::compare::statistics
