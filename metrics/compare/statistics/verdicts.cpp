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

/// Returns the one-sided chance of an effect that lies `beyond` a margin; that is negative inside.
double chance_of(double beyond, const Effect& effect) {
  if (effect.sequence) return p_value_beyond(beyond, *effect.sequence) / 2;
  const Estimate& estimate = *effect.estimate;
  if (estimate.standard_error > 0) return effect.looks * t_above(beyond / estimate.standard_error, estimate.degrees);
  return beyond > 0 ? 0.0 : 1.0;
}

double mean_of(const Effect& effect) { return effect.sequence ? effect.sequence->mean : effect.estimate->mean; }

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

Interval interval_of(const Effect& effect) {
  return effect.sequence ? interval_of(*effect.sequence) : interval_of(*effect.estimate, effect.looks);
}

bool is_below_worse_margin(const Effect& effect) {
  if (!effect.known() || !effect.worse_margin) return false;
  return chance_of(std::log1p(*effect.worse_margin) - mean_of(effect), effect) <= level;
}

bool is_below_worse_points(const Effect& effect) {
  if (!effect.difference || !effect.worse_points) return false;
  return effect.difference->upper(level / effect.looks) <= *effect.worse_points;
}

double p_value(const Effect& effect) {
  if (!effect.known()) return std::numeric_limits<double>::quiet_NaN();
  const Interval margins = margins_of(effect);
  const double above = chance_of(mean_of(effect) - margins.high, effect);
  const double below = chance_of(margins.low - mean_of(effect), effect);
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
    if (family[i].known()) {
      const Interval interval = interval_of(family[i]), margins = margins_of(family[i]);
      if (rejected[i]) {
        decision.finding = direction(family[i].metric, mean_of(family[i]));
      } else if (interval.low >= margins.low && interval.high <= margins.high) {
        decision.finding = Finding::equivalent;
      } else if (is_below_worse_margin(family[i]) || is_below_worse_points(family[i])) {
        decision.finding = Finding::not_worse;
      } else {
        decision.held_back = decision.p <= level;
      }
    }
    decisions.push_back(decision);
  }
  return decisions;
}

}  // namespace weir::metrics::compare::statistics
