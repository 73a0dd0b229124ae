// From pairs, or from the requests of a split, to the ten block values of each metric.
#pragma once

#include <optional>
#include <vector>

#include "config/settings.hpp"
#include "metrics/compare/blocks.hpp"
#include "metrics/compare/divergence.hpp"
#include "metrics/compare/pairing.hpp"
#include "metrics/compare/verdicts.hpp"

namespace weir::metrics::compare {

/// One metric's values on both sides. If they are paired, the two lists belong together and have the same moments.
struct SideValues {
  std::vector<Point> a, b;
  bool paired = false;
};

/// Returns one sample's value of ttft, tpot or output_tokens, or nothing if it has none.
///
/// TPOT and the length of an answer are known at its end alone, so the answer has to be whole; and TPOT is that of an
/// answer of at least 16 tokens. An answer without any token counts as one token long, so that it has a logarithm.
std::optional<double> value_of(Metric metric, const Sample& sample);

/// Returns the values of ttft, tpot or output_tokens: of pairs, where both sides have one.
SideValues values_of(Metric metric, const Pairing& pairing);

/// Returns ln(b/a): the median over the pairs of each block, or the logarithm of b's median over a's in a split.
BlockValues log_ratios(const SideValues& values, const Window& window);
/// Returns the same for each minute.
std::vector<double> log_ratios_by_minute(const SideValues& values, const Window& window);

/// The values are 0 or 1. Returns the difference of the two shares of each block, over a's share in the window; NaN
/// if that is 0.
BlockValues share_differences(const SideValues& values, const Window& window);

/// Returns 1 for each value above a's own p95 in the window, else 0.
SideValues above_p95_of_a(const SideValues& values, const Window& window);

/// Returns 1 for each request that met the objective, else 0; and for pairs how the two sides met it together.
struct Attained {
  SideValues values;
  TwoByTwo pairs;
};
Attained attained(const config::Slo& slo, const Pairing& pairing);

}  // namespace weir::metrics::compare
