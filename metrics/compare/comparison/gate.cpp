#include "metrics/compare/comparison/gate.hpp"

#include <algorithm>

#include "metrics/compare/comparison/why.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Figure;
using statistics::Finding;

/// A margin that an option widened may hold more than b may be worse by.
bool is_safe(const Verdict& verdict) {
  const bool has_margin = verdict.effect.worse_margin.has_value();
  return verdict.finding == Finding::better || verdict.finding == Finding::not_worse ||
         (verdict.finding == Finding::equivalent &&
          (!has_margin || verdict.effect.margin.high <= *verdict.effect.worse_margin ||
           is_below_worse_margin(verdict.effect)));
}

/// Returns how many answers of a side have the figure, of the side with more of them.
std::uint64_t answers_with(const Comparison& comparison, Figure figure) {
  const auto* const verdict = comparison.verdict_of(figure);
  const auto& had = comparison.had_of(figure);
  return std::max({verdict == nullptr ? 0 : verdict->count, had.a, had.b});
}

/// True if b has to be known not to be worse in this figure. A handful of streams among thousands of other answers
/// does not tell for days, and does not count.
bool is_guardrail(const Comparison& comparison, Figure figure) {
  if (figure == Figure::output_tokens || figure == Figure::stalls) return true;
  const auto streamed = answers_with(comparison, Figure::ttft), whole = answers_with(comparison, Figure::e2e);
  if (figure == Figure::e2e) return whole > streamed;
  return 100 * std::min(streamed, answers_with(comparison, figure)) >= streamed + whole;
}

class Sorting {
 public:
  explicit Sorting(const Comparison& comparison) : comparison_(comparison) {}

  GateResult run() {
    for (const FaultVerdict& fault : comparison_.faults) {
      const bool told = fault.pairs.pairs > 0 || fault.fault == pairs::Fault::failed;
      const bool safe = fault.finding == Finding::better || fault.finding == Finding::not_worse;
      if (told) add(name_of(fault.fault), fault.finding, !safe, why(fault, comparison_));
    }
    for (const Verdict& verdict : comparison_.verdicts) {
      const bool differs = verdict.finding == Finding::longer || verdict.finding == Finding::shorter;
      // The sentence about answers tells that of pairs.
      if (differs && comparison_.mode != pairs::Mode::split) continue;
      add(name_of(verdict.figure), verdict.finding, is_guardrail(comparison_, verdict.figure) && !is_safe(verdict),
          why(verdict, comparison_));
    }
    for (const Changed& changed : comparison_.changes)
      if (changed.by > 0)
        add("changed", changed.after >= sure_change ? Finding::worse : Finding::inconclusive, true,
            change_sentence(changed, comparison_));
    if (comparison_.has_several_answers())
      result_.unknown.push_back("shadows: one side has several answers to " + std::to_string(comparison_.repeated) +
                                " requests, and the first of each counts; name one shadow or replica.");
    if (comparison_.one_configuration)
      result_.unknown.emplace_back("configuration: both sides are of one, so nothing is to be promoted.");
    if (!result_.worse.empty())
      result_.but_for_answers = Gate::worse;
    else if (result_.unknown.empty() && !comparison_.verdicts.empty())
      result_.but_for_answers = Gate::pass;
    result_.word = result_.but_for_answers;
    if (comparison_.answers.word != pairs::Alike::differs) return std::move(result_);
    result_.answers = "answers: " + why(comparison_.answers, comparison_);
    result_.unknown.push_back(result_.answers);
    if (result_.word == Gate::pass) result_.word = Gate::unknown;
    return std::move(result_);
  }

 private:
  void add(std::string_view name, Finding finding, bool open, const std::string& sentence) {
    const std::string text = std::string(name) + ": " + sentence;
    if (finding == Finding::worse)
      result_.worse.push_back(text);
    else if (open)
      result_.unknown.push_back(text);
  }

  const Comparison& comparison_;
  GateResult result_;
};

}  // namespace

GateResult gate_of(const Comparison& comparison) { return Sorting(comparison).run(); }

}  // namespace weir::metrics::compare::comparison
