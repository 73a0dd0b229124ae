// The values of a metric in a pairing.
#pragma once

#include <optional>
#include <span>

#include "config/settings.hpp"
#include "metrics/compare/pairs/divergence.hpp"
#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/statistics/distribution.hpp"
#include "metrics/compare/statistics/effects.hpp"
#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::pairs {

/// Returns one sample's value of ttft, tpot, output_tokens (as of output_tokens_mean), longest_gap or freezes, or
/// nothing if it has none.
///
/// All but TTFT are known at an answer's end alone, so the answer has to be whole; and TPOT is that of an answer of at
/// least 16 tokens. An answer without any token counts as one token long, so that it has a logarithm. Gaps are those
/// of the sample's bins, right to 0.8 %. An answer freezes (1, else 0) if a gap is longer than 250 ms and than ten
/// times the median of its own gaps.
std::optional<double> value_of(statistics::Metric metric, const samples::Sample& sample);

/// Returns the same of all requests: of pairs, where both sides have one.
statistics::SideValues values_of(statistics::Metric metric, const Pairing& pairing);

/// Returns the 99th percentile of the slower side's durations in the window, in seconds; NaN if there are none.
double slower_p99_s(const Pairing& pairing, const statistics::Window& window);

/// The durations of each side's pairs, in bins (right to 0.8 %).
struct Durations {
  statistics::GapCounts a, b;

  void add(std::span<const Pair> pairs);
  /// Returns the 99th percentile of the slower side, in seconds; NaN if there are none.
  double slower_p99_s() const;
};

/// Returns 1 for each request that missed the objective, else 0; and for pairs how the two sides met it together.
struct Attained {
  statistics::SideValues missed;
  TwoByTwo met;
};
Attained attained(const config::Slo& slo, const Pairing& pairing);

}  // namespace weir::metrics::compare::pairs
