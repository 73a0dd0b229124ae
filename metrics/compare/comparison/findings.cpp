#include "metrics/compare/comparison/findings.hpp"

#include <algorithm>
#include <vector>

#include "metrics/compare/comparison/why.hpp"

namespace weir::metrics::compare::comparison {
namespace {

/// The estimate's word, however sure it is.
statistics::Finding sign_of(const Verdict& verdict) {
  const double estimate = verdict.estimate.value_or(0);
  return estimate > 0   ? statistics::Finding::worse
         : estimate < 0 ? statistics::Finding::better
                        : statistics::Finding::inconclusive;
}

/// A side that was spared load may look better than it is. So what speaks against that side holds, and nothing else.
Bar load_bar_of(statistics::Metric metric, statistics::Finding finding, const pairs::Load& load) {
  if (metric == statistics::Metric::output_tokens || metric == statistics::Metric::output_tokens_mean)
    return Bar::none;
  if (!load.same) return Bar::load_differs;
  const bool for_a = finding == statistics::Finding::worse;
  const bool for_b = finding == statistics::Finding::better || finding == statistics::Finding::not_worse;
  const bool misleads = (load.helped_a() && !for_b) || (load.helped_b() && !for_a);
  return misleads ? Bar::spared_load : Bar::none;
}

/// Decides about one comparison's verdicts.
class Deciding {
 public:
  Deciding(Comparison& comparison, const Judged& judged, const pairs::Load& load, bool misses_are_known)
      : comparison_(comparison), judged_(judged), load_(load), misses_are_known_(misses_are_known) {}

  void decide_family(bool tails) {
    std::vector<statistics::Effect> family;
    std::vector<Verdict*> verdicts;
    for (Verdict& verdict : comparison_.verdicts) {
      if (is_tail(verdict.metric) != tails) continue;
      family.push_back(effect_of(verdict));
      verdicts.push_back(&verdict);
    }
    const std::vector<statistics::Decision> decisions = statistics::decide(family);
    for (std::size_t i = 0; i < verdicts.size(); ++i) set(*verdicts[i], decisions[i]);
  }

 private:
  void set(Verdict& verdict, const statistics::Decision& decision) const {
    verdict.finding = decision.finding;
    verdict.p = decision.p;
    verdict.load_forbids = load_bar_of(verdict.metric, sign_of(verdict), load_) != Bar::none;
    const Bar bar = bar_of(verdict);
    if (bar != Bar::too_few) verdict.needs_s.reset();
    if (bar != Bar::none) {
      verdict.withheld = true;
      verdict.finding = statistics::Finding::inconclusive;
    }
    verdict.why = why(verdict, bar, decision.held_back, comparison_);
  }

  Bar bar_of(const Verdict& verdict) const {
    if (comparison_.apart) return Bar::apart;
    if (comparison_.declared && !judged_.ended && !verdict.sequence) return Bar::running;
    if (verdict.metric == statistics::Metric::slo && !misses_are_known_) return Bar::not_counted;
    if (comparison_.unfilled) return Bar::cold;
    if (verdict.interval) return load_bar_of(verdict.metric, verdict.finding, load_);
    // Where the loads forbid a verdict, no window is long enough.
    if (verdict.load_forbids) return load_bar_of(verdict.metric, sign_of(verdict), load_);
    return verdict.needs_s ? Bar::too_few : Bar::no_values;
  }

  Comparison& comparison_;
  const Judged& judged_;
  const pairs::Load& load_;
  const bool misses_are_known_;
};

}  // namespace

void find_state(Comparison& comparison, const Judged& judged) {
  const auto& verdicts = comparison.verdicts;
  const bool any = std::ranges::any_of(verdicts, [](const Verdict& one) { return one.interval.has_value(); });
  if (comparison.declared && !judged.ended) {
    comparison.state = State::running;
  } else if (!any) {
    comparison.state = State::too_few;
    auto& needs_s = comparison.needs_s;
    for (const Verdict& verdict : verdicts) {
      if (verdict.needs_s) needs_s = std::min(needs_s.value_or(*verdict.needs_s), *verdict.needs_s);
    }
  } else {
    comparison.state = judged.ended ? State::final : State::running;
  }
}

void decide(Comparison& comparison, const Judged& judged, const pairs::Load& load, bool misses_are_known) {
  Deciding deciding(comparison, judged, load, misses_are_known);
  deciding.decide_family(false);
  deciding.decide_family(true);
}

}  // namespace weir::metrics::compare::comparison
