#include "metrics/compare/comparison/bridge.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "metrics/compare/comparison/why.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Estimate;

/// Returns the sides of the same kind that have requests in both times, by name.
std::vector<sides::Selection> controls_of(const Apart& apart, std::span<const samples::Sample> samples,
                                          const samples::Names& names, const Options& options) {
  const sides::By by = options.a.by;
  if (by != options.b.by || (by != sides::By::config && by != sides::By::replica)) return {};
  struct There {
    bool beside_a = false, beside_b = false;
  };
  std::map<samples::Names::Name, There> found;
  for (const samples::Sample& sample : samples) {
    const auto name = by == sides::By::config ? sample.config : sample.replica;
    if (name == 0 || name == options.a.name || name == options.b.name) continue;
    found[name].beside_a |= apart.a.holds(sample.dispatched_us);
    found[name].beside_b |= apart.b.holds(sample.dispatched_us);
  }
  std::vector<sides::Selection> controls;
  for (const auto& [name, there] : found) {
    if (there.beside_a && there.beside_b) controls.push_back({by, name, Role::primary});
  }
  std::ranges::sort(controls, {}, [&](const sides::Selection& one) { return names.text(one.name); });
  return controls;
}

/// Compares a side with the control in the side's own time.
Comparison beside(const sides::Selection& control, const sides::Selection& side, const statistics::Window& time,
                  std::span<const samples::Sample> samples, const samples::Names& names, Options options) {
  options.a = control;
  options.b = side;
  options.from_us = time.from_us;
  options.to_us = time.to_us;
  options.length_us.reset();
  options.histories.clear();
  options.resamples = options.bins = 0;
  return compare(samples, names, options);
}

/// Returns the estimate of a metric, unless the load forbids it.
std::optional<Estimate> estimate_of(const Comparison& comparison, statistics::Metric metric) {
  const auto found = std::ranges::find(comparison.verdicts, metric, &Verdict::metric);
  if (found == comparison.verdicts.end() || found->load_forbids || found->sequence) return std::nullopt;
  return found->effect;
}

Estimate difference(const Estimate& b, const Estimate& a) {
  const double of_a = a.standard_error * a.standard_error, of_b = b.standard_error * b.standard_error;
  const double squares = of_a * of_a / a.degrees + of_b * of_b / b.degrees;
  const double degrees = squares > 0 ? (of_a + of_b) * (of_a + of_b) / squares : a.degrees + b.degrees;
  return {b.mean - a.mean, std::sqrt(of_a + of_b), degrees};
}

/// A tail is a share above the p95 of the control in that time, and so another figure in each.
bool is_one_figure(statistics::Metric metric) {
  return metric != statistics::Metric::ttft_tail && metric != statistics::Metric::tpot_tail;
}

void decide(Comparison& comparison, bool tails) {
  std::vector<statistics::Effect> family;
  std::vector<Verdict*> verdicts;
  for (Verdict& verdict : comparison.verdicts) {
    if (is_tail(verdict.metric) != tails || !verdict.effect) continue;
    family.push_back(effect_of(verdict));
    verdicts.push_back(&verdict);
  }
  const auto decisions = statistics::decide(family);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    Verdict& verdict = *verdicts[i];
    verdict.finding = decisions[i].finding;
    verdict.p = decisions[i].p;
    verdict.withheld = verdict.load_forbids = false;
    verdict.why = why(verdict, Bar::none, decisions[i].held_back, comparison);
  }
}

}  // namespace

void bridge(Comparison& comparison, std::span<const samples::Sample> samples, const samples::Names& names,
            const Options& options) {
  for (const sides::Selection& control : controls_of(*comparison.apart, samples, names, options)) {
    const Comparison of_a = beside(control, options.a, comparison.apart->a, samples, names, options);
    const Comparison of_b = beside(control, options.b, comparison.apart->b, samples, names, options);
    bool any = false;
    for (Verdict& verdict : comparison.verdicts) {
      if (!is_one_figure(verdict.metric)) continue;
      const auto a = estimate_of(of_a, verdict.metric), b = estimate_of(of_b, verdict.metric);
      if (!a || !b) continue;
      verdict.effect = difference(*b, *a);
      verdict.estimate = statistics::shown(verdict.effect->mean);
      verdict.interval = statistics::shown(interval_of(*verdict.effect));
      any |= verdict.metric == statistics::Metric::ttft || verdict.metric == statistics::Metric::tpot;
    }
    if (!any) continue;
    comparison.apart->control = control.label(names);
    decide(comparison, false);
    decide(comparison, true);
    comparison.state = State::final;
    return;
  }
}

}  // namespace weir::metrics::compare::comparison
