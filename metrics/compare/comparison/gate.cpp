#include "metrics/compare/comparison/gate.hpp"

#include <algorithm>

#include "metrics/compare/comparison/why.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Finding;
using statistics::Metric;

bool is_guardrail(Metric metric) {
  return metric == Metric::slo || metric == Metric::ttft || metric == Metric::tpot ||
         metric == Metric::output_tokens_mean;
}

/// These stop b if they are worse, though nobody waits until they are known.
bool is_watched(Metric metric) {
  return metric == Metric::longest_gap || metric == Metric::freezes || is_minority(metric);
}

bool is_safe(Finding finding) {
  return finding == Finding::better || finding == Finding::equivalent || finding == Finding::not_worse;
}

/// A margin that a floor or an option widened may hold more than b may be worse by.
bool hides_worse(const Verdict& verdict) {
  const auto most = verdict.worse_margin;
  if (verdict.finding != Finding::equivalent || !most || verdict.margin <= *most) return false;
  if (is_below_worse_points(effect_of(verdict))) return false;
  return !verdict.interval || verdict.interval->high > *most;
}

/// Sorts what was found into a result.
void add(GateResult& result, std::string_view name, Finding finding, bool guardrail, const std::string& sentence) {
  const std::string text = std::string(name) + ": " + sentence;
  if (finding == Finding::worse) {
    result.worse.push_back(text);
  } else if (guardrail && !is_safe(finding)) {
    result.unknown.push_back(text);
  }
}

}  // namespace

GateResult gate_of(const Comparison& comparison, SplitFaults split) {
  GateResult result;
  for (const pairs::FaultPairs& fault : comparison.faults) {
    const bool told = fault.pairs.pairs() > 0;
    const bool needed = fault.fault == pairs::Fault::failed && comparison.mode != pairs::Mode::split;
    if (told || needed) add(result, name_of(fault.fault), fault.finding, true, why(fault, comparison));
  }
  if (comparison.mode == pairs::Mode::split && split == SplitFaults::unknown)
    result.unknown.emplace_back("failed: the sides had different requests, and faults are compared pair by pair alone");
  for (const Verdict& verdict : comparison.verdicts) {
    const bool guardrail = is_guardrail(verdict.metric);
    if (guardrail && hides_worse(verdict)) {
      add(result, name_of(verdict.metric), Finding::inconclusive, true,
          verdict.why + " That margin is wider than the " + percent(*verdict.worse_margin) +
              " that it may be worse by.");
    } else if (guardrail || is_watched(verdict.metric)) {
      add(result, name_of(verdict.metric), verdict.finding, guardrail, verdict.why);
    }
  }
  if (!result.worse.empty()) {
    result.but_for_answers = Gate::worse;
  } else if (result.unknown.empty() && !comparison.verdicts.empty()) {
    result.but_for_answers = Gate::pass;
  }
  result.word = result.but_for_answers;
  if (comparison.sameness.word != pairs::Alike::differs) return result;
  result.answers = "answers: they differ, and no figure says whether they are as good. " +
                   why(comparison.sameness, comparison);
  result.unknown.push_back(result.answers);
  if (result.word == Gate::pass) result.word = Gate::unknown;
  return result;
}

}  // namespace weir::metrics::compare::comparison
