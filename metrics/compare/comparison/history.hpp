// What two sides of one configuration differed by, minute by minute: the noise that a comparison has to be judged by.
// weir sees such minutes for nothing: a control beside its primary, and replicas of one configuration in one pool.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/compare/pairs/pairing.hpp"
#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/sides/selection.hpp"
#include "metrics/compare/statistics/confidence_sequence.hpp"
#include "metrics/compare/statistics/effects.hpp"
#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::comparison {

/// Minutes of A/A: ln(b/a) of each minute as log_ratios_by_minute() has it, of couples that ran one configuration.
struct History {
  std::string source;  ///< "same (shadow) against gpu0"
  /// By metric, a series for each couple; empty for metrics that are not medians.
  std::array<std::vector<statistics::Minutes>, statistics::metric_count> minutes{};

  /// Returns the long-run variance of a metric's minute; nothing with less than eight hours of it.
  std::optional<double> variance(statistics::Metric metric) const;
  /// Returns how many hours of the metric there are, over all couples.
  double hours(statistics::Metric metric) const;
};

/// The metrics that minutes have a median of.
inline constexpr std::array<statistics::Metric, 3> metrics_of_minutes{
    statistics::Metric::ttft, statistics::Metric::tpot, statistics::Metric::output_tokens};

/// Returns the minutes of one couple of sides, from when a shadow among them is warm.
History history_between(std::span<const samples::Sample> samples, const sides::Selection& a, const sides::Selection& b,
                        const pairs::WarmUp& warm_up, std::string source);

/// Finds the minutes of A/A among samples: for a comparison of pairs those of a primary and a twin of it with its own
/// `config`; otherwise, or where there are less than eight hours of them, those of replicas of one `config` in one
/// pool, two by two. Returns nothing where there are less than eight hours of either. Takes time n log n, and hardly
/// any if the samples are of less than eight hours.
std::optional<History> find_history(std::span<const samples::Sample> samples, const samples::Names& names,
                                    const pairs::WarmUp& warm_up, bool paired);

}  // namespace weir::metrics::compare::comparison
