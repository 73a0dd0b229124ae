#include "metrics/compare/comparison/gate.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Finding;
using statistics::Metric;

bool is_guardrail(Metric metric) { return metric == Metric::slo || metric == Metric::ttft || metric == Metric::tpot; }

bool is_safe(Finding finding) {
  return finding == Finding::better || finding == Finding::equivalent || finding == Finding::not_worse;
}

}  // namespace

GateResult gate_of(const Comparison& comparison) {
  GateResult result;
  for (const Verdict& verdict : comparison.verdicts) {
    const bool counts = is_guardrail(verdict.metric);
    const std::string sentence = std::string(name_of(verdict.metric)) + ": " + verdict.why;
    if (verdict.finding == Finding::worse && !is_tail(verdict.metric)) {
      result.worse.push_back(sentence);
    } else if (counts && !is_safe(verdict.finding)) {
      result.unknown.push_back(sentence);
    }
  }
  const bool pass = result.worse.empty() && result.unknown.empty() && !comparison.verdicts.empty();
  result.word = !result.worse.empty() ? Gate::worse : pass ? Gate::pass : Gate::unknown;
  return result;
}

}  // namespace weir::metrics::compare::comparison
