#include "metrics/compare/comparison/margins.hpp"

#include <algorithm>
#include <cmath>

namespace weir::metrics::compare::comparison {
namespace {

double set_margin_of(statistics::Metric metric, const Options& options) {
  if (metric == statistics::Metric::output_tokens_mean) return std::max(options.margin, options.mean_margin);
  if (is_minority(metric)) return options.minority_margin;
  return is_share(metric) || is_tail(metric) ? options.share_margin : options.margin;
}

}  // namespace

double margin_of(statistics::Metric metric, const Options& options) {
  const double floor = std::abs(options.floor[static_cast<std::size_t>(metric)]);
  const double set = set_margin_of(metric, options);
  return std::isfinite(floor) ? std::max(set, floor) : set;
}

std::optional<double> worse_margin_of(statistics::Metric metric, const Options& options) {
  if (metric == statistics::Metric::ttft) return options.margins.ttft;
  if (metric == statistics::Metric::tpot) return options.margins.tpot;
  if (metric == statistics::Metric::slo) return options.margins.misses;
  if (metric == statistics::Metric::output_tokens_mean) return options.margins.mean_tokens;
  return std::nullopt;
}

}  // namespace weir::metrics::compare::comparison
