#include "metrics/compare/statistics/verdicts.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "metrics/compare/statistics/student_t.hpp"

namespace weir::metrics::compare::statistics {
namespace {

constexpr double level = 0.05;

/// The margins as logarithms. They are equal as shares, so that what is shown as inside is inside.
Interval margins_of(const Effect& effect) {
  const double low = effect.margin < 1 ? std::log1p(-effect.margin) : -std::numeric_limits<double>::infinity();
  return {low, std::log1p(effect.margin)};
}

/// `beyond` is how far the estimate lies outside a margin; it is negative inside.
double chance_of(double beyond, const Estimate& estimate) {
  if (estimate.standard_error > 0) return t_above(beyond / estimate.standard_error, estimate.degrees);
  return beyond > 0 ? 0.0 : 1.0;
}

Finding direction(Metric metric, double effect) {
  const bool more = effect > 0;
  if (metric == Metric::output_tokens) return more ? Finding::longer : Finding::shorter;
  return more ? Finding::worse : Finding::better;
}

}  // namespace

double shown(double effect) { return std::expm1(effect); }

Interval shown(const Interval& interval) { return {shown(interval.low), shown(interval.high)}; }

std::optional<double> shown_if_known(double effect) {
  return std::isfinite(effect) ? std::optional(shown(effect)) : std::nullopt;
}

double p_value(const Effect& effect) {
  if (!effect.estimate) return std::numeric_limits<double>::quiet_NaN();
  const Interval margins = margins_of(effect);
  const double above = chance_of(effect.estimate->mean - margins.high, *effect.estimate);
  const double below = chance_of(margins.low - effect.estimate->mean, *effect.estimate);
  return std::min(1.0, 2 * std::min(above, below));
}

std::vector<bool> holm(std::span<const double> p_values, double at_level) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p_values.size(); ++i) {
    if (!std::isnan(p_values[i])) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return p_values[x] < p_values[y]; });
  std::vector<bool> rejected(p_values.size(), false);
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    if (p_values[order[rank]] > at_level / static_cast<double>(order.size() - rank)) break;
    rejected[order[rank]] = true;
  }
  return rejected;
}

std::vector<Decision> decide(std::span<const Effect> family) {
  std::vector<double> p_values;
  for (const Effect& effect : family) p_values.push_back(p_value(effect));
  const std::vector<bool> rejected = holm(p_values, level);
  std::vector<Decision> decisions;
  for (std::size_t i = 0; i < family.size(); ++i) {
    Decision decision;
    decision.p = p_values[i];
    if (const auto& estimate = family[i].estimate) {
      const Interval interval = interval_of(*estimate), margins = margins_of(family[i]);
      if (rejected[i]) {
        decision.finding = direction(family[i].metric, estimate->mean);
      } else if (interval.low >= margins.low && interval.high <= margins.high) {
        decision.finding = Finding::equivalent;
      } else {
        decision.held_back = decision.p <= level;
      }
    }
    decisions.push_back(decision);
  }
  return decisions;
}

}  // namespace weir::metrics::compare::statistics
