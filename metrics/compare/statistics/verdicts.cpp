#include "metrics/compare/statistics/verdicts.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace weir::metrics::compare::statistics {
namespace {

constexpr double level = 0.05;

Finding direction(Figure figure, double effect) {
  const bool more = effect > 0;
  if (figure == Figure::output_tokens) return more ? Finding::longer : Finding::shorter;
  return more ? Finding::worse : Finding::better;
}

/// A one-sided limit at `level` is one end of a two-sided interval at twice that.
bool is_below(const Sequence& sequence, double limit, double more) {
  return sequence.mean + sequence.reach_after(more, 2 * level) < limit;
}

/// True if `equivalent` would be the word after so many times the minutes, or `not_worse` where that is asked.
bool would_pass(const Effect& effect, double more) {
  const Sequence& sequence = *effect.sequence;
  if (effect.worse_margin && !effect.by_estimate) return is_below(sequence, *effect.worse_margin, more);
  if (effect.worse_margin) return sequence.mean < *effect.worse_margin;
  const double reach = effect.by_estimate ? 0 : sequence.reach_after(more, level);
  return sequence.mean - reach >= effect.margin.low && sequence.mean + reach <= effect.margin.high;
}

}  // namespace

double shown(Figure figure, double effect) { return figure == Figure::stalls ? effect : std::expm1(effect); }

Interval shown(Figure figure, const Interval& interval) {
  return {shown(figure, interval.low), shown(figure, interval.high)};
}

bool is_below_worse_margin(const Effect& effect) {
  if (!effect.sequence || !effect.worse_margin || effect.sequence->minutes < least_minutes_to_pass) return false;
  if (effect.by_estimate) return effect.sequence->mean < *effect.worse_margin;
  return is_below(*effect.sequence, *effect.worse_margin, 1);
}

std::optional<double> times_until_known(const Effect& effect, std::size_t figures, double minutes_to_claim) {
  constexpr double most = 300, step = 1.05;
  if (!effect.sequence) return std::nullopt;
  const Sequence& sequence = *effect.sequence;
  const double to_pass = least_minutes_to_pass / sequence.minutes;
  const bool is_near = std::abs(sequence.mean) < effect.least_claim;
  const double to_claim = is_near ? minutes_to_claim / sequence.minutes : 0;
  const double beyond = std::max(sequence.mean - effect.margin.high, effect.margin.low - sequence.mean);
  for (double more = 1; more < most; more *= step) {
    const bool is_beyond = beyond > sequence.reach_after(more, level / static_cast<double>(figures));
    // An effect that is beyond its margin and may be a drift does not pass either.
    const bool passes = would_pass(effect, more) && more >= to_pass && !(is_near && is_beyond && sequence.mean > 0);
    const bool claims = more >= to_claim && is_beyond;
    if (passes || claims) return more;
  }
  return std::nullopt;
}

double p_value(const Effect& effect) {
  if (!effect.sequence) return std::numeric_limits<double>::quiet_NaN();
  const double mean = effect.sequence->mean;
  return p_value_beyond(std::max(mean - effect.margin.high, effect.margin.low - mean), *effect.sequence);
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
    const Effect& effect = family[i];
    Decision& decision = decisions.emplace_back();
    decision.p = p_values[i];
    if (!effect.sequence) continue;
    const double mean = effect.sequence->mean;
    const Interval interval = effect.by_estimate ? Interval{mean, mean} : interval_of(*effect.sequence);
    decision.too_near = rejected[i] && std::abs(mean) < effect.least_claim;
    if (rejected[i] && !decision.too_near) {
      decision.finding = direction(effect.figure, mean);
    } else if (decision.too_near && mean > 0) {
      // More than the margin, and perhaps a drift: neither is known.
    } else if (effect.sequence->minutes >= least_minutes_to_pass && interval.low >= effect.margin.low &&
               interval.high <= effect.margin.high) {
      decision.finding = Finding::equivalent;
    } else if (is_below_worse_margin(effect)) {
      decision.finding = Finding::not_worse;
    } else {
      decision.held_back = !rejected[i] && decision.p <= level;
    }
  }
  return decisions;
}

}  // namespace weir::metrics::compare::statistics
