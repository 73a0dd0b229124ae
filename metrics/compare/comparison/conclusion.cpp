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
constexpr std::array<std::pair<Metric, std::string_view>, 8> figures{
    {{Metric::tpot, "TPOT"},
     {Metric::ttft, "TTFT"},
     {Metric::slo, "SLO misses"},
     {Metric::output_tokens_mean, "tokens an answer"},
     {Metric::longest_gap, "longest gap"},
     {Metric::freezes, "answers that freeze"},
     {Metric::ttft_minority, "pairs with a far longer TTFT"},
     {Metric::tpot_minority, "pairs with a far longer TPOT"}}};

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

/// "from 27.2 to 31.5 ms": both in the unit that suits the larger one.
std::string values(Metric metric, double a, double b) {
  if (has_shares(metric)) return format("from %.2f to %.2f %%", 100 * a, 100 * b);
  if (metric == Metric::output_tokens_mean) return format("from %.0f to %.0f", a, b);
  // From 0.9995 s on three digits of milliseconds would be 1e+03.
  return std::max(a, b) < 0.9995 ? format("from %.3g to %.3g ms", 1e3 * a, 1e3 * b)
                                 : format("from %.2f to %.2f s", a, b);
}

bool is_told(const Verdict& verdict) {
  if (verdict.finding == Finding::worse || verdict.finding == Finding::better) return true;
  return verdict.metric == Metric::tpot || verdict.metric == Metric::ttft || verdict.metric == Metric::slo;
}

/// "TPOT from 27.2 to 31.5 ms (+14.1 %)" for each figure that is told: what is worse comes first.
std::vector<std::string> told_figures(const Comparison& comparison) {
  std::vector<std::string> worse, others;
  for (std::size_t i = 0; i < comparison.faults.size(); ++i) {
    const auto& [fault, pairs, margin, finding] = comparison.faults[i];
    if (finding != Finding::worse && finding != Finding::better) continue;
    const auto of = [&pairs = pairs](std::uint64_t alone) {
      return 100 * static_cast<double>(alone + pairs.both()) / static_cast<double>(pairs.pairs());
    };
    const auto shares = format(" from %.2f to %.2f %%", of(pairs.only_a()), of(pairs.only_b()));
    (finding == Finding::worse ? worse : others).push_back(std::string(fault_words[i]) + shares);
  }
  for (const auto& [metric, word] : figures) {
    const auto* const verdict = verdict_of(comparison, metric);
    if (verdict == nullptr || !is_told(*verdict) || !verdict->value_a || !verdict->value_b) continue;
    std::string text = std::string(word) + ' ' + values(metric, *verdict->value_a, *verdict->value_b);
    if (!has_shares(metric) && verdict->estimate) text += " (" + percent(*verdict->estimate) + ')';
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
  const bool stalls =
      is(comparison, Metric::longest_gap, Finding::worse) || is(comparison, Metric::freezes, Finding::worse);
  return stalls ? "stalls more often" : "is slower for a minority of requests";
}

/// The guardrails that are not known: "SLO misses and failed requests". Each sentence begins with a name and a colon.
std::string open_guardrails(const std::vector<std::string>& unknown) {
  std::vector<std::string_view> words;
  for (const std::string_view sentence : unknown) {
    const auto name = sentence.substr(0, sentence.find(':'));
    const auto fault = std::ranges::find(pairs::fault_names, name);
    const auto metric = std::ranges::find(statistics::metric_names, name);
    if (fault != pairs::fault_names.end())
      words.push_back(fault_words[static_cast<std::size_t>(fault - pairs::fault_names.begin())]);
    else if (metric != statistics::metric_names.end())
      words.push_back(word_for(static_cast<Metric>(metric - statistics::metric_names.begin())));
    else
      words.push_back(name);
  }
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text.append(i == 0 ? "" : i + 1 == words.size() ? " and " : ", ").append(words[i]);
  return text;
}

/// Says that b became worse within the window; "" if it did not.
std::string change_for_the_worse(const Comparison& comparison) {
  for (const Changed& changed : comparison.changes)
    if (changed.by > 0 && changed.metric != Metric::output_tokens)
      return comparison.b + " became worse at " + time_of_day(changed.since_us).substr(0, 5) + " (" +
             std::string(word_for(changed.metric)) + ' ' + percent(changed.by) + " beside " + comparison.a +
             " since then)";
  return {};
}

std::string beginning(const Comparison& comparison, Gate gate, const std::vector<std::string>& unknown) {
  if (comparison.apart && comparison.apart->control.empty())
    return comparison.a + " and " + comparison.b + " did not run at the same time";
  if (gate == Gate::worse) return comparison.b + ' ' + worse_word(comparison);
  if (gate == Gate::unknown) {
    if (auto change = change_for_the_worse(comparison); !change.empty()) return change;
    const auto of = open_guardrails(unknown);
    return "Not known yet whether " + comparison.b + " is worse than " + comparison.a + (of.empty() ? "" : " in " + of);
  }
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
                                                 : "answers were not judged, which takes a control";
}

std::string minutes(double seconds) { return format("%.0f min", std::ceil(seconds / 60)); }

/// Says what to do.
std::string advice(const Comparison& comparison, Gate gate) {
  if (comparison.apart && comparison.apart->control.empty())
    return "No verdict: run both at once, or a control beside each.";
  if (gate == Gate::worse) return "Do not promote.";
  if (gate == Gate::pass) {
    if (comparison.sameness.word == pairs::Alike::differs) return "Look at the answers before you promote.";
    const bool judged = comparison.mode == pairs::Mode::split || comparison.sameness.word == pairs::Alike::same;
    return judged ? "May be promoted." : "May be promoted, if its answers are as good.";
  }
  if (!change_for_the_worse(comparison).empty())
    return "Find out what happened then, and compare again from there (--from).";
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
  std::string line = beginning(comparison, word, gate.unknown);
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
