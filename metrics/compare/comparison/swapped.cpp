#include "metrics/compare/comparison/swapped.hpp"

#include <algorithm>
#include <cmath>

namespace weir::metrics::compare::comparison {
namespace {

/// Returns Welch's degrees of freedom of the mean of two independent estimates.
double degrees_of(const statistics::Estimate& first, const statistics::Estimate& second) {
  const double one = first.standard_error * first.standard_error, two = second.standard_error * second.standard_error;
  if (one + two == 0) return first.degrees + second.degrees;
  return (one + two) * (one + two) / (one * one / first.degrees + two * two / second.degrees);
}

}  // namespace

Swapped separate(const statistics::Estimate& first, const statistics::Estimate& second) {
  const double error = std::hypot(first.standard_error, second.standard_error) / 2;
  const double degrees = degrees_of(first, second);
  return {{(first.mean + second.mean) / 2, error, degrees}, {(first.mean - second.mean) / 2, error, degrees}};
}

State state_of(const Comparison& first, const Comparison& second) {
  for (const State state : {State::too_few, State::running}) {
    if (first.state == state || second.state == state) return state;
  }
  return State::final;
}

std::vector<SwappedVerdict> separate(const Comparison& first, const Comparison& second) {
  std::vector<SwappedVerdict> result;
  const auto not_ended = [](const Comparison& one) { return one.declared && one.state == State::running; };
  if (not_ended(first) || not_ended(second)) return result;
  for (const bool tails : {false, true}) {
    std::vector<statistics::Effect> family;
    std::vector<SwappedVerdict> verdicts;
    for (const Verdict& one : first.verdicts) {
      const auto two = std::find_if(second.verdicts.begin(), second.verdicts.end(),
                                    [&](const Verdict& other) { return other.metric == one.metric; });
      if (is_tail(one.metric) != tails || two == second.verdicts.end() || !one.effect || !two->effect) continue;
      const Swapped effects = separate(*one.effect, *two->effect);
      SwappedVerdict verdict;
      verdict.metric = one.metric;
      const unsigned looks = std::max(one.looks, two->looks);
      verdict.configuration = statistics::shown(effects.configuration.mean);
      verdict.gpu = statistics::shown(effects.gpu.mean);
      verdict.configuration_interval = statistics::shown(interval_of(effects.configuration, looks));
      verdict.gpu_interval = statistics::shown(interval_of(effects.gpu, looks));
      verdict.margin = std::max(one.margin, two->margin);
      verdict.withheld = one.withheld || two->withheld;
      statistics::Effect effect{one.metric, effects.configuration, verdict.margin};
      effect.looks = looks;
      family.push_back(effect);
      verdicts.push_back(verdict);
    }
    const std::vector<statistics::Decision> decisions = statistics::decide(family);
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      verdicts[i].decision = decisions[i];
      if (verdicts[i].withheld) verdicts[i].decision.finding = statistics::Finding::inconclusive;
      result.push_back(verdicts[i]);
    }
  }
  return result;
}

}  // namespace weir::metrics::compare::comparison
