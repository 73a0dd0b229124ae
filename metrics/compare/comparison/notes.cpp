#include "metrics/compare/comparison/judging.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "metrics/compare/comparison/why.hpp"
#include "metrics/compare/statistics/quantile.hpp"
#include "metrics/text.hpp"

namespace weir::metrics::compare::comparison {
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
  return fmt::format("Drift: TTFT, TPOT or E2E of one minute is much like that of the minute before. Two equal GPUs "
                     "may drift apart by {:.0f} %, so a smaller difference is called neither better nor worse. Eight "
                     "hours of a control, of two replicas of one configuration, or --floor FILE tell how much these "
                     "drift.", 100 * drift_allowance);
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
    if (threshold) text += (text.empty() ? "" : " or ") + std::string(name) + fmt::format(" {:g} s",
                                                                                          threshold->count());
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
  return fmt::format("The sides take turns: {:.0f} minutes have requests of both, and only they count. Let both run "
                     "at once.", comparison.minutes);
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
  return fmt::format("Shared hardware suspected: TPOT of the primary is {:.1f} % longer since its shadow began, at "
                     "{}, with as many requests in flight ({:.1f}, before {:.1f}). ", 100 * (change - 1),
                     time_of_day(began), after.mean_in_flight(), before.mean_in_flight()) +
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
    add("nothing_mirrored",
        "Nothing was mirrored, so that no pair has both answers. The shadow was spared " +
            sides::counts_text(comparison.dropped) + ". " + sides::help_against(comparison.dropped));
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
                     "slower, so no time or SLO miss counts against it. Give all replicas equal weight.", comparison.b,
                     comparison.crowd, comparison.a)});
  if (comparison.warming > 0 && comparison.dropped.empty()) {
    std::string text = fmt::format("Pairs that are left out because the shadow was not warm yet: {}.",
                                   comparison.warming);
    if (comparison.unfilled) text += " So far " + shortfall(*comparison.unfilled) + '.';
    notes.push_back({"warm_up", std::move(text)});
  }
  if (pairing.repeated > 0) {
    notes.push_back(
        {"several_answers", fmt::format("One side has several answers to {} requests, and the first of each counts. "
                                        "Name one shadow or replica.", pairing.repeated)});
  }
  return notes;
}

}  // namespace weir::metrics::compare::comparison
