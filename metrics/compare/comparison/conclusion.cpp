#include "metrics/compare/comparison/conclusion.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/compare/comparison/why.hpp"
#include "metrics/format.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Finding;
using statistics::Metric;

/// The figures of a line, in its order, in words that need no glossary.
constexpr std::array<std::pair<Metric, std::string_view>, 6> figures{{{Metric::tpot, "TPOT"},
                                                                      {Metric::ttft, "TTFT"},
                                                                      {Metric::slo, "SLO misses"},
                                                                      {Metric::output_tokens_mean, "tokens an answer"},
                                                                      {Metric::longest_gap, "longest gap"},
                                                                      {Metric::freezes, "answers that freeze"}}};

constexpr std::array<std::string_view, pairs::fault_count> fault_words{
    "failed requests", "empty answers", "answers cut at their limit", "calls of tools that are not valid"};

const Verdict* verdict_of(const Comparison& comparison, Metric metric) {
  const auto found = std::ranges::find(comparison.verdicts, metric, &Verdict::metric);
  return found == comparison.verdicts.end() ? nullptr : &*found;
}

bool is(const Comparison& comparison, Metric metric, Finding finding) {
  const auto* const verdict = verdict_of(comparison, metric);
  return verdict != nullptr && verdict->finding == finding;
}

bool any_fault(const Comparison& comparison, Finding finding) {
  return std::ranges::any_of(comparison.faults, [&](const auto& fault) { return fault.finding == finding; });
}

/// "27.2 to 31.5 ms": both in the unit that suits the larger one.
std::string values(Metric metric, double a, double b) {
  if (is_share(metric)) return format("%.2f to %.2f %%", 100 * a, 100 * b);
  if (metric == Metric::output_tokens_mean) return format("%.0f to %.0f", a, b);
  // From 0.9995 s on three digits of milliseconds would be 1e+03.
  return std::max(a, b) < 0.9995 ? format("%.3g to %.3g ms", 1e3 * a, 1e3 * b) : format("%.2f to %.2f s", a, b);
}

bool is_told(const Verdict& verdict) {
  if (verdict.finding == Finding::worse || verdict.finding == Finding::better) return true;
  return verdict.metric == Metric::tpot || verdict.metric == Metric::ttft || verdict.metric == Metric::slo;
}

/// "TPOT 27.2 to 31.5 ms (+14.1 %)" for each figure that is told: what is worse comes first.
std::vector<std::string> told_figures(const Comparison& comparison) {
  std::vector<std::string> worse, others;
  for (std::size_t i = 0; i < comparison.faults.size(); ++i) {
    const auto& [fault, pairs, margin, finding] = comparison.faults[i];
    if (finding != Finding::worse && finding != Finding::better) continue;
    const auto of = [&](std::uint64_t alone) {
      return 100 * static_cast<double>(alone + pairs.both()) / static_cast<double>(pairs.pairs());
    };
    (finding == Finding::worse ? worse : others)
        .push_back(std::string(fault_words[i]) + format(" %.2f to %.2f %%", of(pairs.only_a()), of(pairs.only_b())));
  }
  for (const auto& [metric, word] : figures) {
    const auto* const verdict = verdict_of(comparison, metric);
    if (verdict == nullptr || !is_told(*verdict) || !verdict->value_a || !verdict->value_b) continue;
    std::string text = std::string(word) + ' ' + values(metric, *verdict->value_a, *verdict->value_b);
    if (!is_share(metric) && verdict->estimate) text += " (" + percent(*verdict->estimate) + ')';
    (verdict->finding == Finding::worse ? worse : others).push_back(std::move(text));
  }
  worse.insert(worse.end(), others.begin(), others.end());
  return worse;
}

/// Says what is worse, in one word where there is one.
std::string worse_word(const Comparison& comparison) {
  const bool slower = is(comparison, Metric::tpot, Finding::worse) || is(comparison, Metric::ttft, Finding::worse);
  if (any_fault(comparison, Finding::worse)) return slower ? "is slower and fails more often" : "fails more often";
  if (slower) return "is slower";
  if (is(comparison, Metric::slo, Finding::worse)) return "misses the objective more often";
  if (is(comparison, Metric::output_tokens_mean, Finding::worse)) return "answers at greater length";
  return "stalls more often";
}

std::string beginning(const Comparison& comparison, Gate gate) {
  if (comparison.apart && comparison.apart->control.empty())
    return comparison.a + " and " + comparison.b + " did not run at the same time";
  if (gate == Gate::worse) return comparison.b + ' ' + worse_word(comparison);
  if (gate == Gate::unknown) return "Not known yet whether " + comparison.b + " is worse than " + comparison.a;
  const bool faster = is(comparison, Metric::tpot, Finding::better) || is(comparison, Metric::ttft, Finding::better);
  return comparison.b + (faster ? " is faster" : " is not worse than " + comparison.a);
}

std::string likeness(const Comparison& comparison) {
  if (comparison.mode == pairs::Mode::split) return {};
  switch (comparison.sameness.word) {
    case pairs::Alike::same:
      return "answers are the same";
    case pairs::Alike::differs:
      return "answers differ";
    case pairs::Alike::unknown:
      break;
  }
  return comparison.mode == pairs::Mode::control ? "not known yet whether answers are the same"
                                                 : "without a control nobody can tell whether answers are the same";
}

std::string minutes(double seconds) { return format("%.0f min", std::ceil(seconds / 60)); }

/// Says what to do.
std::string advice(const Comparison& comparison, Gate gate) {
  if (comparison.apart && comparison.apart->control.empty())
    return "No verdict: run both at once, or a control beside each.";
  if (gate == Gate::worse) return "Do not promote.";
  if (gate == Gate::pass)
    return comparison.sameness.word == pairs::Alike::differs ? "Look at the answers before you promote."
                                                             : "May be promoted.";
  if (!comparison.dropped.empty())
    return "Nothing was mirrored: the shadow was spared " + sides::counts_text(comparison.dropped) + ". " +
           sides::help_against(comparison.dropped);
  const double window_s = comparison.window.seconds();
  if (comparison.apart) return "Run both at once.";
  if (comparison.one_sided_blocks > 0) return "Let the sides take shorter turns, or run both at once.";
  if (comparison.unfilled) return "Wait until the shadow is warm.";
  if (comparison.needs_s && *comparison.needs_s > window_s)
    return "Wait " + minutes(*comparison.needs_s - window_s) + " more.";
  if (comparison.look && comparison.look->next_s && *comparison.look->next_s > window_s)
    return "Wait " + minutes(*comparison.look->next_s - window_s) + " more for the next look.";
  return "Take a longer window, or a wider margin.";
}

}  // namespace

std::string conclusion_of(const Comparison& comparison, const GateResult& gate) {
  // Figures that pass the gate are told as such, though answers that differ are for people to judge.
  const bool answers_alone = gate.word == Gate::unknown && gate.worse.empty() && gate.unknown.size() == 1 &&
                             gate.unknown.front().starts_with("answers:");
  const Gate word = answers_alone ? Gate::pass : gate.word;
  std::string line = beginning(comparison, word);
  std::string_view before = ": ";
  for (const auto& figure : told_figures(comparison)) {
    line.append(before).append(figure);
    before = ", ";
  }
  for (const Changed& changed : comparison.changes)
    line += "; " + std::string(word_for(changed.metric)) + ' ' + percent(changed.by) + " since " +
            time_of_day(changed.since_us).substr(0, 5);
  if (const auto text = likeness(comparison); !text.empty()) line += "; " + text;
  return line + ". " + advice(comparison, word);
}

}  // namespace weir::metrics::compare::comparison
