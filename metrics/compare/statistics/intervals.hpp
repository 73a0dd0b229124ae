// Statistics of one figure: intervals and evidence valid at every look, estimates, quantiles.
//
// A mean over minutes, and an interval of it that holds at every look together.
//
// The interval is the normal mixture of Robbins, "Statistical methods related to the law of the iterated logarithm",
// Annals of Mathematical Statistics 41 (1970): the sum of t minutes of variance v keeps within
// sqrt((v t + r) (2 ln(1/alpha) + ln((v t + r) / r))) at all t, but with probability alpha. It is narrowest after half
// an hour. The variance is what the window's own tenths show, widened for their few degrees of freedom by the square of
// t over z; or that of a history, if it is more (verdicts.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>

#include "metrics/record/answer.hpp"

namespace weir::metrics::compare::statistics {

inline constexpr std::int64_t minute_us = 60'000'000;

/// Wall clock, in microseconds since 1970. `to_us` is outside.
struct Window {
  std::int64_t from_us = 0, to_us = 0;

  bool operator==(const Window&) const = default;
  bool holds(std::int64_t at_us) const { return at_us >= from_us && at_us < to_us; }
  double seconds() const { return to_us > from_us ? static_cast<double>(to_us - from_us) * 1e-6 : 0.0; }
  /// True of a window such as that of a single pair, which has no rates.
  bool is_moment() const { return seconds() < 1; }
};

struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval&) const = default;
};

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

// A figure with the interval that it lies in, where that is known. Student's t is Boost.Math's.

/// Returns Student's t that is exceeded with probability (1 - confidence) / 2: 2.262 for 95 % and 9 degrees of freedom.
double t_two_sided(double confidence, double degrees);

struct Measured {
  double value = 0;
  std::optional<Interval> interval;  ///< At 95 %, and absent where there is too little to tell.
};

/// Returns the mean of the values and its t interval; nothing for no value. The interval takes the values as
/// independent, so with neighbours in time it is too narrow.
std::optional<Measured> measured(std::span<const double> values);

/// The least-squares line through points.
struct Line {
  Measured slope, intercept;
};

/// Needs at least three points, not all at the same x.
std::optional<Line> line_through(std::span<const double> x, std::span<const double> y);

// Evidence about events that one of two sides has alone: which side has them more often, and by how little. Evidence
// may be looked at after every event, and nobody has to say beforehand when to look.
//
// Somebody bets against a hypothesis about the mean of a bounded value, a fixed part of his wealth each time. Under the
// hypothesis no bet gains on average, so the wealth exceeds x at any time with probability 1/x at most (Ville's
// inequality). The evidence is the mean wealth of sixteen such people with different parts. Waudby-Smith and Ramdas,
// "Estimating means of bounded random variables by betting", Journal of the Royal Statistical Society B 86 (2024).
//
// The value of a unit is (b has it) - (a has it). A unit is a pair of answers to one request; or a conversation that
// was drawn for one of the sides, which then stands for as many as were not drawn for it.

/// The counts need not be whole: events that share a cause count in part (table/table.hpp).
struct Events {
  double a = 0, b = 0;  ///< Units in which that side alone has it.
  double units = 0;
  /// Where each unit is of one side: the most that b's and a's shares of the units may be if they are equal. Both are
  /// between 0 and 1, and 1 together or more.
  std::optional<double> share{}, share_of_a{};

  /// Returns the same with the sides exchanged.
  Events exchanged() const { return {b, a, units, share_of_a, share}; }
};

/// Returns events of units of which b's have so great a share, and a's all others.
Events drawn_events(double a, double b, double units, double share);

/// Returns ln of the evidence that b has the event more often than a.
double log_evidence_of_more(const Events& events);

/// Returns ln of the evidence that b has it in less than `ratio` times a's units and `points` (a share) of all units.
double log_evidence_below(const Events& events, double ratio, double points);

/// Returns the differences of the rates against which there is no evidence of 40: at all moments together it holds the
/// true one with 95 %. Without units it is -1 to 1.
Interval difference_of(const Events& events);

// Quantiles by one definition, which every table, interval and chart uses: Hyndman and Fan's type 7, the default of
// numpy, pandas, R and spreadsheets. Of n values in order, numbered from 0, the quantile q lies at the number
// q * (n - 1), and between two values on the straight line.
//
// Values that were only counted in bins are taken as the middles of their bins, and the rest is the same.

/// Returns the quantile `q` (0 to 1) of `count` values, of which `value_at(number)` gives one by its number in their
/// order; NaN if there are none. `value_at` is asked for one number, or for two in a row.
template <class ValueAt>
double quantile_by_number(std::uint64_t count, double q, ValueAt&& value_at) {
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  const double number = q * static_cast<double>(count - 1);
  const auto below = static_cast<std::uint64_t>(number);
  const double share = number - static_cast<double>(below);
  const auto low = static_cast<double>(value_at(below));
  if (below + 1 == count || share == 0) return low;
  return low + share * (static_cast<double>(value_at(below + 1)) - low);
}

/// Returns the quantile `q` of values that are in order.
template <class Value>
double quantile_of_sorted(std::span<const Value> sorted, double q) {
  return quantile_by_number(sorted.size(), q, [&](std::uint64_t number) { return sorted[number]; });
}

/// Returns the quantile `q` of values, which it reorders, in linear time.
template <class Value>
double quantile(std::span<Value> values, double q) {
  auto first = values.begin();  // All before it are in front of the number that was asked for last.
  return quantile_by_number(values.size(), q, [&](std::uint64_t number) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(number);
    std::nth_element(first, at, values.end());
    first = at + 1;
    return *at;
  });
}

template <class Value>
double median(std::span<Value> values) {
  return quantile(values, 0.5);
}

// Quantiles of what was measured: exact from values, right to 0.8 % from the bins of gap sketches.

/// A quantile is absent where there are too few values to know it.
struct Distribution {
  std::uint64_t count = 0;
  std::optional<double> p50, p90, p95, p99;
  bool operator==(const Distribution&) const = default;
};

/// With fewer values the p99 is not reported (docs/reference/metrics.md).
inline constexpr std::uint64_t least_for_p99 = 100;

/// Reorders the values. None may be NaN.
Distribution distribution_of(std::span<float> values);

/// The numbers of gaps by their bins (record::GapSketch).
using GapCounts = std::map<std::uint16_t, std::uint64_t>;
/// Adds the gaps of a stream.
void add(GapCounts& counts, std::span<const record::GapSketch::Bin> bins);

/// Returns the quantile `q` of all gaps, each taken as the middle of its bin, in seconds; NaN if there are none.
double quantile_of_gaps(const GapCounts& counts, double q);

/// Returns the distribution of all gaps, in seconds.
Distribution distribution_of(const GapCounts& counts);

}  // namespace weir::metrics::compare::statistics
