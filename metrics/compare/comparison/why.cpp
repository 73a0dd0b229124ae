#include "metrics/compare/comparison/why.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/samples/log_reading.hpp"
#include "metrics/compare/statistics/intervals.hpp"
#include "metrics/text.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Figure;
using statistics::Finding;

std::string count(std::uint64_t number) { return std::to_string(number); }

/// "TPOT of fp8 is 8.1 % above that of fp16 (27.2 to 29.4 ms)"
std::string statement(const Verdict& verdict, const Comparison& comparison) {
  const std::string figure(word_for(verdict.figure)), &a = comparison.a, &b = comparison.b;
  if (!verdict.estimate) return figure + ": no request has it on both sides";
  const std::string values = " (" + values_text(verdict.figure, *verdict.value_a, *verdict.value_b) + ')';
  const std::string by = fmt::format("{:.1f} %", 100 * std::abs(*verdict.estimate));
  const std::string is = verdict.figure == Figure::stalls || verdict.figure == Figure::output_tokens ? " are " : " is ";
  if (verdict.figure == Figure::stalls)
    return figure + " of " + b + is + effect_text(verdict.figure, *verdict.estimate) + " beside " + a + values;
  if (by == "0.0 %") return figure + " of " + b + is + "that of " + a + values;
  return figure + " of " + b + is + by + (*verdict.estimate < 0 ? " below" : " above") + " that of " + a + values;
}

/// "2.0 %", or "10 s per 1000 requests"
std::string margin_text(Figure figure, double limit) {
  if (figure == Figure::stalls) return fmt::format("{:.3g} s per 1000 requests", limit);
  return fmt::format("{:.3g} %", 100 * std::expm1(limit));
}

std::string conclusion(const Verdict& verdict) {
  const auto& effect = verdict.effect;
  const std::string margin = "the margin of " + margin_text(verdict.figure, effect.margin.high);
  const std::string most = effect.worse_margin ? margin_text(verdict.figure, *effect.worse_margin) : "";
  switch (verdict.finding) {
    case Finding::equivalent:
      return "inside " + margin;
    case Finding::not_worse:
      return "not worse by " + most + " or more";
    case Finding::inconclusive:
      break;
    default:
      return "beyond " + margin;
  }
  if (verdict.lately)
    return "but it was " + effect_text(verdict.figure, statistics::shown(verdict.figure, *verdict.lately)) +
           " in the last three tenths of the window, more than " + most;
  if (verdict.tail)
    return "but slow requests are slower: the root mean square is " +
           effect_text(verdict.figure, statistics::shown(verdict.figure, *verdict.tail)) + ", more than " + most;
  if (verdict.too_near)
    return "beyond " + margin +
           fmt::format(", but two equal GPUs may drift apart by {:.0f} %", 100 * std::expm1(effect.least_claim));
  if (verdict.held_back)
    return "beyond " + margin +
           fmt::format(
               " if it were the only figure (p = {:.3f}), but not sure yet among all that are tested "
               "together (Holm)",
               verdict.p);
  if (most.empty()) return "neither inside nor clearly beyond " + margin;
  return "not clearly less than " + most + " worse";
}

/// True if b is worse since a moment within the window.
bool changed_for_the_worse(const Comparison& comparison) {
  return std::ranges::any_of(comparison.changes, [](const Changed& one) { return one.by > 0; });
}

std::string more_of(const std::optional<double>& needs_s, const Comparison& comparison) {
  if (!needs_s) return {};
  if (changed_for_the_worse(comparison))
    return {};  // The window holds two behaviours, and more of it tells of neither.
  return "; " + length_text(std::max(60.0, *needs_s - comparison.window.seconds())) + " more would tell";
}

/// Says why no request has a figure on both sides.
std::string no_values(Figure figure, const Comparison& comparison) {
  const auto& had = comparison.had_of(figure);
  if (figure == Figure::stalls) return "it takes requests of both sides";
  if ((had.a > 0) != (had.b > 0))
    return "of the answers of " + comparison.a + ' ' + count(had.a) + " have it, of those of " + comparison.b + ' ' +
           count(had.b);
  if (figure == Figure::output_tokens) return "no answer was counted in tokens on both sides";
  if (figure == Figure::e2e) return "it takes whole answers that are not streamed on both sides";
  return std::string("it takes answers ") + (is_of_tokens(figure) ? "of 16 tokens or more " : "") +
         "that are streamed on both sides";
}

std::string obstacle(const Verdict& verdict, const Comparison& comparison) {
  switch (verdict.bar) {
    case Bar::none:
      return {};
    case Bar::no_values:
      return no_values(verdict.figure, comparison);
    case Bar::other_tokens:
      return "the sides count tokens differently";
    case Bar::lacking:
      return "one side lacks it in answers in which the other has it";
    case Bar::too_few:
      if (verdict.minutes >= statistics::least_minutes)
        return std::string("too few ") + (comparison.mode == pairs::Mode::split ? "conversations" : "requests") +
               " of a side have it";
      return fmt::format("it takes {} minutes in which both sides have it, and there {} {}", statistics::least_minutes,
                         verdict.minutes == 1 ? "is" : "are", verdict.minutes);
    case Bar::cold:
      return "no pair counts before the shadow is warm, and " + shortfall(*comparison.unfilled);
    case Bar::apart:
      return "the sides did not run at the same time";
    case Bar::load_differs:
      return "the two sides did not have the same load";
    case Bar::spared_load:
      return "one side was spared the load of more than 1 % of the requests";
    case Bar::conversations:
      return "whole conversations are drawn for a side, and there are " + count(comparison.conversations_a) + " of " +
             comparison.a + " and " + count(comparison.conversations_b) + " of " + comparison.b + ": it takes " +
             count(least_conversations) + " of each";
  }
  return {};
}

std::string points(double share) { return with_sign(100 * share, 2); }

}  // namespace

std::string_view word_for(Figure figure) {
  static constexpr std::array<std::string_view, statistics::figure_count> words{
      "TTFT", "TPOT", "geometric mean TTFT", "geometric mean TPOT", "E2E", "tokens per answer", "stalls"};
  return words[static_cast<std::size_t>(figure)];
}

std::string_view word_for(pairs::Fault fault) {
  static constexpr std::array<std::string_view, pairs::fault_count> words{"failed requests",
                                                                          "empty answers",
                                                                          "truncated answers",
                                                                          "calls of tools that are not valid",
                                                                          "SLO misses",
                                                                          "calls of tools",
                                                                          "calls other than the primary's"};
  return words[static_cast<std::size_t>(fault)];
}

std::string values_text(Figure figure, double a, double b) {
  if (figure == Figure::output_tokens) return fmt::format("{:.0f} to {:.0f}", a, b);
  if (figure == Figure::stalls) return fmt::format("{:.3g} to {:.3g} s per 1000 requests", a, b);
  // From 0.9995 s on three digits of milliseconds would be 1e+03.
  const double most = std::max(a, b);
  return most < 0.0995   ? fmt::format("{:.2f} to {:.2f} ms", 1e3 * a, 1e3 * b)
         : most < 0.9995 ? fmt::format("{:.1f} to {:.1f} ms", 1e3 * a, 1e3 * b)
                         : fmt::format("{:.3f} to {:.3f} s", a, b);
}

std::string effect_text(Figure figure, double estimate) {
  return figure == Figure::stalls ? with_sign(estimate, 1) + " s per 1000 requests" : signed_percent(estimate);
}

std::string shortfall(const Unfilled& unfilled) {
  return unfilled.side + fmt::format(" has prefilled {} of the {} tokens that its KV cache holds", unfilled.prefilled,
                                     unfilled.kv_tokens);
}

std::string stretch(const statistics::Window& window) {
  return "from " + samples::format_rfc3339(window.from_us) + " to " + samples::format_rfc3339(window.to_us);
}

std::string length_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", std::ceil(seconds));
  if (seconds < 7200) return fmt::format("{:.0f} min", std::ceil(seconds / 60));
  return fmt::format("{:.1f} h", std::ceil(seconds / 360) / 10);
}

std::string time_of_day(std::int64_t us) { return samples::format_rfc3339(us).substr(11, 8); }

std::string why(const FaultVerdict& fault, const Comparison& comparison) {
  const auto& pairs = fault.pairs;
  const bool split = comparison.mode == pairs::Mode::split;
  if (pairs.pairs == 0) return split ? "no conversation tells it." : "no pair of answers tells it.";
  std::string text = "of " + count(pairs.pairs);
  text += split ? " conversations, " + count(pairs.only_b) + " of " + comparison.b + " and " + count(pairs.only_a) +
                      " of " + comparison.a + " have it"
                : " pairs, " + count(pairs.only_b) + " of " + comparison.b + " alone, " + count(pairs.only_a) + " of " +
                      comparison.a + " alone, " + count(pairs.both) + " of both";
  text += ": " + points(fault.share_b() - fault.share_a()) + " points (" + points(fault.difference.low) + " to " +
          points(fault.difference.high) + ", valid at any look)";
  const double more = std::max(fault.more_in_a, fault.more_in_b);
  if (fault.finding == Finding::worse || fault.finding == Finding::better)
    return text + "; evidence against chance that " + (fault.finding == Finding::worse ? comparison.b : comparison.a) +
           fmt::format(" has more: {:.3g} ({:.0f} is enough).", more, evidence_needed);
  const std::string margin = fmt::format(" the margin of {:.2f} points", 100 * fault.margin);
  if (fault.finding == Finding::not_worse) return text + ", below" + margin + '.';
  const bool one_cause = fault.share_b() > fault.share_a() && fault.causes.b < 4 && pairs.only_b >= 8;
  return text + ", not clearly below" + margin +
         (one_cause
              ? "; they came at " + std::string(fault.causes.b > 1 ? "few times" : "one time") + ", as after a crash"
              : "") +
         more_of(fault.needs_s, comparison) + '.';
}

std::string why(const Answers& answers, const Comparison& comparison) {
  if (answers.word != pairs::Alike::differs) return why(comparison.sameness, comparison);
  std::string text = "they differ (" + answers.why + "), and no figure says whether they are as good.";
  if (answers.why == "their text")
    return text + ' ' + why(comparison.sameness, comparison) +
           " In the request log, the shadows' lines with \"same_text\":false are those to read.";
  if (const auto* const length = comparison.verdict_of(Figure::output_tokens); answers.why.starts_with("they are"))
    text += ' ' + why(*length, comparison);
  for (const auto& fault : comparison.faults)
    if (word_for(fault.fault) == answers.why)
      text += ' ' + std::string(word_for(fault.fault)) + ": " + why(fault, comparison);
  return text;
}

std::string why(const pairs::Sameness& found, const Comparison& comparison) {
  const std::string &a = comparison.a, &b = comparison.b;
  if (comparison.mode == pairs::Mode::split) return "The sides had different requests.";
  if (found.compared == 0)
    return "No greedy request was answered by both and compared with the primary's answer; answers that are drawn at "
           "random differ by themselves.";
  std::string text = "Of " + count(found.compared) + " greedy requests, " + b + " left the primary's text first in " +
                     count(found.first_b);
  if (found.control) {
    text += " and " + a + " in " + count(found.first_a);
    if (const auto ratio = found.hazard_ratio()) text += fmt::format(", {:.2f} times as often", *ratio);
  }
  const auto per_thousand = [&](const std::string& side, const pairs::Leaving& leaving) {
    const auto events = leaving.per_thousand_tokens();
    return events ? fmt::format("{:.3g}", *events) + " of " + side : "unknown of " + side;
  };
  text += "; divergences per 1000 tokens: " + per_thousand(b, found.b);
  if (found.control) text += ", " + per_thousand(a, found.a);
  if (found.repeated > 0) text += "; " + count(found.repeated) + " prompts that came again do not count";
  text += ".";
  if (found.b.at_start > 0) {
    const auto all = static_cast<double>(found.compared + found.repeated);
    const auto share = [&](std::uint64_t requests) {
      return fmt::format("{:.1f} %", 100 * static_cast<double>(requests) / all);
    };
    text += " Different within the first 64 bytes: " + share(found.b.at_start) + " of " + b;
    if (found.control) text += ", " + share(found.a.at_start) + " of " + a;
    if (found.from_start() >= 20) text += " (look at the template, the tokenizer and the model)";
    text += '.';
  }
  if (comparison.answers.word == pairs::Alike::unknown && !found.control)
    text += " That cannot tell noise from change: start a control.";
  return text;
}

std::string why(const Verdict& verdict, const Comparison& comparison) {
  std::string text = statement(verdict, comparison);
  if (verdict.interval) {
    const auto& [low, high] = *verdict.interval;
    text += ", 95 % interval " + effect_text(verdict.figure, low) + " to " + effect_text(verdict.figure, high) +
            fmt::format(", valid at any look, {:.0f} minutes", verdict.effect.sequence->minutes);
  }
  if (verdict.withheld())
    return text + (verdict.estimate ? ", but no verdict: " : "; ") + obstacle(verdict, comparison) +
           (verdict.bar == Bar::too_few ? more_of(verdict.needs_s, comparison) : "") + '.';
  text += ", " + conclusion(verdict);
  return text + (verdict.finding == Finding::inconclusive ? more_of(verdict.needs_s, comparison) : "") + '.';
}

std::string change_sentence(const Changed& changed, const Comparison& comparison) {
  return "since " + time_of_day(changed.since_us) + ' ' + std::string(word_for(changed.figure)) + " of " +
         comparison.b + " beside " + comparison.a + fmt::format(" is {:.1f} % ", 100 * std::abs(changed.by)) +
         (changed.by > 0 ? "above" : "below") + " what it was before.";
}

namespace {

std::string load_sentence(const Comparison& comparison, const pairs::Load& load) {
  std::string text =
      "Load differs: " + comparison.a + " and " + comparison.b + " did not have the same requests at the same time";
  if (std::isfinite(load.in_flight_a) && std::isfinite(load.in_flight_b)) {
    text += fmt::format(" (mean number in flight {:.1f} and {:.1f})", load.in_flight_a, load.in_flight_b);
  }
  return text +
         "; latency depends on load, so there is no verdict on it. Mirror all requests of one replica (twin) to get "
         "one.";
}

std::string spared_sentence(const Comparison& comparison, const pairs::Load& load) {
  const bool is_b = load.helped_b();
  const pairs::Spared& spared = is_b ? load.b : load.a;
  const std::string &side = is_b ? comparison.b : comparison.a, &other = is_b ? comparison.a : comparison.b;
  std::string text =
      side +
      fmt::format(" has no finished answer to {} of {} requests ({:.1f} %) that ", spared.requests, load.sampled,
                  100.0 * static_cast<double>(spared.requests) / static_cast<double>(load.sampled)) +
      other + fmt::format(" finished, with {:.1f} % of the prompt tokens", 100 * spared.prompt_tokens);
  text += "; by reason:";
  for (const auto& [reason, count] : spared.by_reason) {
    text += (reason == spared.by_reason.begin()->first ? " " : ", ") + reason + " " + std::to_string(count);
  }
  return text + ". " + side +
         " was spared that load, so its latency may look better than it is: latency can count against " + side +
         " here, and not in its favour.";
}

/// "TTFT is missing: fp8 lacks it in 270 of 900 pairs in which fp16 has it"
std::string missing_sentence(const Comparison& comparison, statistics::Figure figure) {
  const Had& had = comparison.had_of(figure);
  if (!had.a_lacks() && !had.b_lacks()) return {};
  const std::string &side = had.b_lacks() ? comparison.b : comparison.a,
                    &other = had.b_lacks() ? comparison.a : comparison.b;
  return std::string(word_for(figure)) + " is missing: " + side +
         fmt::format(" lacks it in {} of {} whole answers in which ", had.b_lacks() ? had.only_a : had.only_b,
                     had.b_lacks() ? had.a : had.b) +
         other + " has it. The others may be the fast ones, so there is no verdict on it.";
}

std::string drift_sentence() {
  return fmt::format(
      "Drift: TTFT, TPOT or E2E of one minute is much like that of the minute before. Two equal GPUs "
      "may drift apart by {:.0f} %, so a smaller difference is called neither better nor worse. Eight "
      "hours of a control, of two replicas of one configuration, or --floor FILE tell how much these "
      "drift.",
      100 * drift_allowance);
}

std::string apart_sentence(const Comparison& comparison) {
  return "The sides do not overlap: " + comparison.a + " ran " + stretch(comparison.apart->a) + ", " + comparison.b +
         ' ' + stretch(comparison.apart->b) +
         ". Latency depends on the load and on the hour, so the figures stand side by side and there is no verdict.";
}

/// "An answer misses the objective that exceeds ttft_client 0.6 s or tpot 0.045 s."
std::string objective_sentence(const config::Slo& slo) {
  std::string text;
  for (const auto& [name, threshold] : {std::pair("ttft_client", slo.ttft_client), std::pair("ttft", slo.ttft),
                                        std::pair("tpot", slo.tpot), std::pair("e2e", slo.e2e)})
    if (threshold)
      text += (text.empty() ? "" : " or ") + std::string(name) + fmt::format(" {:g} s", threshold->count());
  return "SLO misses: an answer misses the objective that exceeds " + text + '.';
}

/// Says of which time what is.
std::string held_sentence(const Comparison& comparison) {
  const statistics::Window& held = *comparison.held;
  return "Tables and charts are of the last " + length_text(held.seconds()) + ", since " + time_of_day(held.from_us) +
         ": older requests are not held any more. Verdicts are of all minutes since " +
         time_of_day(comparison.window.from_us) + " (" + length_text(comparison.window.seconds()) +
         "), the last week of them.";
}

std::string lost_sentence(const Comparison& comparison) {
  return fmt::format("Lost to this comparison: {} requests of its shadows. ", comparison.lost) +
         "They left in a burst before they could be added up, or ended long after the others of their time. The "
         "request log has them: weir compare reads it.";
}

/// True if most minutes have requests of one side alone, and both sides have such minutes.
bool take_turns(const table::Table& table) {
  std::size_t both = 0, only_a = 0, only_b = 0;
  for (const table::Row& row : table.rows)
    ++(row.requests_a > 0 && row.requests_b > 0 ? both : row.requests_a > 0 ? only_a : only_b);
  return std::min(only_a, only_b) >= 3 && both < only_a + only_b;
}

std::string turns_sentence(const Comparison& comparison) {
  return fmt::format(
      "The sides take turns: {:.0f} minutes have requests of both, and only they count. Let both run "
      "at once.",
      comparison.minutes);
}

/// A replica's answers before or after a moment.
struct Era {
  std::vector<double> tpot;
  double in_flight = 0;
  std::size_t known = 0;

  void add(const samples::Sample& sample) {
    tpot.push_back(static_cast<double>(sample.tpot));
    if (!std::isfinite(sample.in_flight_mean)) return;
    in_flight += static_cast<double>(sample.in_flight_mean);
    ++known;
  }
  double mean_in_flight() const { return known > 0 ? in_flight / static_cast<double>(known) : 0; }
};

/// A primary that is slower since its shadow began, under the same load, may stand on the same hardware.
std::string shared_sentence(const Comparison& comparison, const pairs::Pairing& pairing,
                            std::span<const samples::Sample> samples) {
  constexpr std::size_t fewest = 100;
  constexpr double slower = 1.1, alike = 1.2;
  constexpr std::int64_t most_us = 3'600'000'000;
  if (comparison.mode == pairs::Mode::split) return {};
  const std::int64_t began =
      std::min(pairing.warm_a.first_us, pairing.warm_b.first_us);  // Of a primary it is never_warm.
  if (began == pairs::never_warm) return {};
  std::set<samples::Names::Name> replicas;
  for (const pairs::Pair& pair : pairing.pairs) {
    if (pair.primary != nullptr) replicas.insert(pair.primary->replica);
  }
  Era before, after;
  for (const samples::Sample& sample : samples) {
    if (sample.role != Role::primary || !sample.served || !std::isfinite(sample.tpot)) continue;
    if (!replicas.contains(sample.replica) || std::abs(sample.dispatched_us - began) > most_us) continue;
    (sample.dispatched_us < began ? before : after).add(sample);
  }
  if (std::min(before.tpot.size(), after.tpot.size()) < fewest || before.mean_in_flight() <= 0) return {};
  const double load = after.mean_in_flight() / before.mean_in_flight();
  const double change = statistics::median(std::span(after.tpot)) / statistics::median(std::span(before.tpot));
  if (load > alike || load < 1 / alike || change < slower) return {};
  return fmt::format(
             "Shared hardware suspected: TPOT of the primary is {:.1f} % longer since its shadow began, at "
             "{}, with as many requests in flight ({:.1f}, before {:.1f}). ",
             100 * (change - 1), time_of_day(began), after.mean_in_flight(), before.mean_in_flight()) +
         "A shadow on the primary's GPU, host or network slows both, and the comparison tells nothing of a candidate "
         "that has its own.";
}

}  // namespace

std::vector<Note> notes_of(const Comparison& comparison, const table::Table& table, const pairs::Pairing& pairing,
                           std::span<const samples::Sample> samples) {
  const pairs::Load& load = table.load;
  std::vector<Note> notes;
  const auto add = [&](const char* code, std::string sentence) {
    if (!sentence.empty()) notes.push_back({code, std::move(sentence)});
  };
  const auto* const shorter =
      comparison.mode == pairs::Mode::split ? nullptr : comparison.verdict_of(statistics::Figure::output_tokens);
  const bool too_near = std::ranges::any_of(comparison.verdicts, &Verdict::too_near);
  if (!comparison.dropped.empty())
    add("nothing_mirrored", "Nothing was mirrored, so that no pair has both answers. The shadow was spared " +
                                sides::counts_text(comparison.dropped) + ". " +
                                sides::help_against(comparison.dropped));
  if (comparison.held) add("held", held_sentence(comparison));
  if (comparison.lost > 0) add("lost", lost_sentence(comparison));
  if (comparison.apart) add("no_overlap", apart_sentence(comparison));
  if (comparison.mode == pairs::Mode::split && !comparison.apart && take_turns(table))
    add("take_turns", turns_sentence(comparison));
  if (!load.same && !comparison.apart) notes.push_back({"load_differs", load_sentence(comparison, load)});
  if (load.same && (load.helped_a() || load.helped_b()))
    notes.push_back({"spared_load", spared_sentence(comparison, load)});
  if (comparison.counts_tokens_differently()) {
    notes.push_back(
        {"different_tokenizer",
         fmt::format("Different tokenizer or template: the same prompts differ by {:.1f} % in tokens, so TPOT and "
                     "output length count unlike tokens, and have no verdict. Compare E2E and characters (--details).",
                     100 * comparison.divergence.prompt_tokens_differ)});
  }
  for (const auto figure :
       {statistics::Figure::ttft, statistics::Figure::tpot, statistics::Figure::e2e, statistics::Figure::output_tokens})
    add("figure_missing", missing_sentence(comparison, figure));
  for (const Changed& changed : comparison.changes)
    add("changed", "Change within the window: " + change_sentence(changed, comparison) +
                       " An average over the window hides that: look what happened then.");
  add("shared_hardware", shared_sentence(comparison, pairing, samples));
  if (shorter != nullptr && shorter->finding == statistics::Finding::shorter)
    add("spared_tokens",
        comparison.b + fmt::format(" wrote {:.0f} % fewer tokens than ", -100 * *shorter->estimate) + comparison.a +
            " for the same requests. It had that much less to do, so its latency may look better than it is.");
  if (table.slo) add("objective", objective_sentence(*table.slo));
  if (comparison.drifts && too_near) notes.push_back({"drift", drift_sentence()});
  if (comparison.mode == pairs::Mode::control) {
    notes.push_back(
        {"control", comparison.a + " and " + comparison.b +
                        " got copies of the same requests of the primary, and are compared answer by answer."});
  }
  if (comparison.mode == pairs::Mode::split && !comparison.apart) {
    notes.push_back(
        {"not_paired",
         comparison.a + " and " + comparison.b +
             " had different requests, so their means are compared, minute by minute, and conversations are "
             "the unit. That holds if their replicas have equal weight in one pool."});
  }
  if (comparison.crowd > crowded || comparison.crowd < 1 / crowded)
    notes.push_back(
        {"unequal_load",
         fmt::format("A replica of {} had {:.2g} times the requests of one of {}. That alone makes the busier side "
                     "slower, so no time or SLO miss counts against it. Give all replicas equal weight.",
                     comparison.b, comparison.crowd, comparison.a)});
  if (comparison.warming > 0 && comparison.dropped.empty()) {
    std::string text =
        fmt::format("Pairs that are left out because the shadow was not warm yet: {}.", comparison.warming);
    if (comparison.unfilled) text += " So far " + shortfall(*comparison.unfilled) + '.';
    notes.push_back({"warm_up", std::move(text)});
  }
  if (pairing.repeated > 0) {
    notes.push_back(
        {"several_answers", fmt::format("One side has several answers to {} requests, and the first of each counts. "
                                        "Name one shadow or replica.",
                                        pairing.repeated)});
  }
  return notes;
}

}  // namespace weir::metrics::compare::comparison
