// How exactly a simulated log determines a quantile. Parts are drawn of what was simulated, not of the log: a log that
// is put together from drawn parts loses what the parts share, so its caches are colder than the log's.
#pragma once

#include <span>
#include <vector>

namespace weir::lab::forecast {

/// NaN where there are too few values to say.
struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval&) const = default;
};

inline constexpr double interval_confidence = 0.9;

/// Returns where the quantile `q` of such logs lies, with `interval_confidence`. Each run has positive values in the
/// order of time, in which neighbours may depend on each other; runs differ in what was left to chance. The estimate,
/// the quantile of all values together, lies within.
///
/// A block bootstrap: twentieths of each run are drawn with replacement, the same ones of all runs, and the logarithms
/// of what many draws give have a variance, times 20 / 19 (B. Efron and R. Tibshirani, "An Introduction to the
/// Bootstrap", 1993, chapters 5 and 8). The variance of the runs' own quantiles is added. The interval is Student's t
/// with 19 degrees of freedom. The draws have a fixed seed. The interval of p99 is too narrow, because the slowest
/// requests come in a few bursts: in 200 logs of 2,000 times in a queue it held the truth 153 times.
Interval interval_of(std::span<const std::vector<double>> runs, double q);

}  // namespace weir::lab::forecast
