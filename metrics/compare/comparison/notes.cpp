#include "metrics/compare/comparison/notes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "metrics/compare/comparison/why.hpp"
#include "metrics/compare/statistics/quantile.hpp"
#include "metrics/format.hpp"

namespace weir::metrics::compare::comparison {
namespace {

constexpr double other_tokenizer = 0.01;

std::string upper(statistics::Metric metric) { return metric == statistics::Metric::ttft ? "TTFT" : "TPOT"; }

std::string load_sentence(const Comparison& comparison, const pairs::Load& load) {
  std::string text =
      "Load differs: " + comparison.a + " and " + comparison.b + " did not have the same requests at the same time";
  if (std::isfinite(load.in_flight_a) && std::isfinite(load.in_flight_b)) {
    text += format(" (mean number in flight %.1f and %.1f)", load.in_flight_a, load.in_flight_b);
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
      format(" has no finished answer to %llu of %llu requests (%.1f %%) that ",
             static_cast<unsigned long long>(spared.requests), static_cast<unsigned long long>(load.sampled),
             100.0 * static_cast<double>(spared.requests) / static_cast<double>(load.sampled)) +
      other + format(" finished, with %.1f %% of the prompt tokens", 100 * spared.prompt_tokens);
  const auto most = std::max_element(spared.by_block.begin(), spared.by_block.end());
  const auto block = static_cast<std::size_t>(most - spared.by_block.begin());
  text += format("; the most in one block, %llu, from %s on (block %zu)", static_cast<unsigned long long>(*most),
                 time_of_day(comparison.described().begin_of(block)).c_str(), block + 1);
  text += "; by reason:";
  for (const auto& [reason, count] : spared.by_reason) {
    text += (reason == spared.by_reason.begin()->first ? " " : ", ") + reason + " " + std::to_string(count);
  }
  return text + ". " + side +
         " was spared that load, so its latency may look better than it is: latency can count against " + side +
         " here, and not in its favour.";
}

std::string drift_sentence(std::span<const statistics::Metric> drifting) {
  std::string which = upper(drifting.front());
  if (drifting.size() > 1) which += " and " + upper(drifting.back());
  return "Slow drift: the difference in " + which +
         " of one minute is much like that of the minute before, so the interval is too narrow. Take a window of two "
         "hours.";
}

/// Requests of one side that lasted longer than a block.
struct Long {
  std::uint64_t requests = 0;
  double longest_s = 0;

  void add(const samples::Sample& sample, double block_s) {
    const double lasted = std::isfinite(sample.lasted) ? sample.lasted : sample.e2e;
    if (!(lasted > block_s)) return;
    ++requests;
    longest_s = std::max(longest_s, lasted);
  }
};

/// Returns "" if no request lasted longer than a block, or there are no blocks.
std::string long_sentence(const Comparison& comparison, const pairs::Load& load, const pairs::Pairing& pairing) {
  if (comparison.described().is_moment()) return {};
  const double block_s = comparison.described().block_s();
  Long a, b;
  for (const pairs::Pair& pair : pairing.pairs) {
    a.add(*pair.a, block_s);
    b.add(*pair.b, block_s);
  }
  if (comparison.mode == pairs::Mode::split) {
    for (const pairs::Single& one : pairing.only_a) a.add(*one.sample, block_s);
    for (const pairs::Single& one : pairing.only_b) b.add(*one.sample, block_s);
  }
  if (a.requests + b.requests == 0) return {};
  std::string text = format(
      "Long requests: %llu of %s and %llu of %s lasted longer than a block of %.0f s, the longest %.0f s",
      static_cast<unsigned long long>(a.requests), comparison.a.c_str(), static_cast<unsigned long long>(b.requests),
      comparison.b.c_str(), block_s, std::max(a.longest_s, b.longest_s));
  if (std::isfinite(load.in_flight_a) && std::isfinite(load.in_flight_b))
    text += format(", and held their places meanwhile (mean number in flight %.1f and %.1f)", load.in_flight_a,
                   load.in_flight_b);
  return text + ". A difference between blocks may be theirs.";
}

}  // namespace

std::string apart_sentence(const Comparison& comparison) {
  const std::string& control = comparison.apart->control;
  return "The sides do not overlap: " + comparison.a + " ran " + stretch(comparison.apart->a) + ", " + comparison.b +
         ' ' + stretch(comparison.apart->b) +
         ". Latency depends on the load and on the hour, so the figures stand side by side" +
         (control.empty() ? " and there is no verdict. Run both at once, or a control beside each of them."
                          : ". " + control + " ran beside both, so the verdicts are of each against " + control +
                                ": what differs is what one has above the other.");
}

namespace {

/// Says of which time what is.
std::string held_sentence(const Comparison& comparison) {
  const statistics::Window& held = *comparison.held;
  const auto minutes = static_cast<long>(std::lround(held.seconds() / 60));
  std::string text = "Figures, tables and blocks are of the last " +
                     (minutes < 60 ? format("%ld min", minutes) : format("%ld h %ld min", minutes / 60, minutes % 60)) +
                     ", since " + time_of_day(held.from_us) +
                     ": older requests are not held any more. Verdicts are of all that was kept since " +
                     time_of_day(comparison.window.from_us) + format(" (%.1f h)", comparison.window.seconds() / 3600) +
                     ", faults and the answers of what was kept since the first pair.";
  if (comparison.over)
    text +=
        " The week is full for which minutes are kept, so verdicts by a history stay as they are. Switch the shadow "
        "off and on to begin another.";
  return text;
}

std::string lost_sentence(const Comparison& comparison) {
  return format("Lost to this comparison: %llu requests of its shadows. ",
                static_cast<unsigned long long>(comparison.lost)) +
         "They left in a burst before they could be added up, or ended long after the others of their time. The "
         "request log has them: weir compare reads it.";
}

std::string turns_sentence(const Comparison& comparison) {
  return format("The sides take turns: in %u of ten blocks of %.0f s one side alone has requests. ",
                comparison.one_sided_blocks, comparison.window.block_s()) +
         "A verdict takes both in each block: let the turns be shorter and more.";
}

/// "10.2 % above", or "below", what it was.
std::string change_sentence(const Changed& changed, const Comparison& comparison) {
  return "Change within the window: since " + time_of_day(changed.since_us) + " " + upper(changed.metric) + " of " +
         comparison.b + " beside " + comparison.a + format(" is %.1f %% ", 100 * std::abs(changed.by)) +
         (changed.by > 0 ? "above" : "below") +
         " what it was before. An average over the window hides that: look what happened then.";
}

/// Calls `take(sample)` for each request of the side.
template <class Take>
void each_of(const pairs::Pairing& pairing, const samples::Sample* pairs::Pair::*side,
             const std::vector<pairs::Single>& singles, Take take) {
  for (const pairs::Pair& pair : pairing.pairs) take(*(pair.*side));
  if (pairing.mode != pairs::Mode::split) return;
  for (const pairs::Single& one : singles) take(*one.sample);
}

/// Returns the share of the output tokens that the longest hundredth of a side's answers hold; 0 with fewer than 100.
double share_of_longest(const pairs::Pairing& pairing, const samples::Sample* pairs::Pair::*side,
                        const std::vector<pairs::Single>& singles) {
  std::vector<std::uint32_t> tokens;
  each_of(pairing, side, singles, [&](const samples::Sample& sample) {
    if (sample.served && sample.output_tokens != samples::unknown_count) tokens.push_back(sample.output_tokens);
  });
  if (tokens.size() < 100) return 0;
  std::ranges::sort(tokens, std::greater<>());
  const auto longest = static_cast<std::ptrdiff_t>(tokens.size() / 100);
  const double all = std::accumulate(tokens.begin(), tokens.end(), 0.0);
  return all > 0 ? std::accumulate(tokens.begin(), tokens.begin() + longest, 0.0) / all : 0;
}

std::string tails_sentence(const Comparison& comparison, const pairs::Pairing& pairing) {
  constexpr double heavy = 0.2;
  const double a = share_of_longest(pairing, &pairs::Pair::a, pairing.only_a),
               b = share_of_longest(pairing, &pairs::Pair::b, pairing.only_b);
  if (std::max(a, b) < heavy) return {};
  return format("Heavy tails: the longest 1 %% of the answers hold %.0f %% of the output tokens of ", 100 * a) +
         comparison.a + format(" and %.0f %% of those of ", 100 * b) + comparison.b +
         ". Means, totals and costs hang on a few answers, so take a longer window for them.";
}

/// Returns how many times as long as the luckiest twentieth the median request of a side waits for its first token, for
/// an equal prompt; 0 with fewer than 200 requests. Half a thousand tokens stand for what a request takes without any.
double waiting_of(const pairs::Pairing& pairing, const samples::Sample* pairs::Pair::*side,
                  const std::vector<pairs::Single>& singles) {
  constexpr double basis = 500;
  std::vector<double> waits;
  each_of(pairing, side, singles, [&](const samples::Sample& sample) {
    if (!std::isfinite(sample.ttft) || sample.prompt_tokens == samples::unknown_count) return;
    const std::uint32_t cached = sample.cached_tokens == samples::unknown_count ? 0 : sample.cached_tokens;
    const double tokens = sample.prompt_tokens - std::min(cached, sample.prompt_tokens);
    waits.push_back(static_cast<double>(sample.ttft) / (basis + tokens));
  });
  if (waits.size() < 200) return 0;
  const double luckiest = statistics::quantile(std::span(waits), 0.05);
  return luckiest > 0 ? statistics::quantile(std::span(waits), 0.5) / luckiest : 0;
}

std::string saturated_sentence(const pairs::Pairing& pairing) {
  constexpr double queues = 5;
  const double a = waiting_of(pairing, &pairs::Pair::a, pairing.only_a),
               b = waiting_of(pairing, &pairs::Pair::b, pairing.only_b);
  if (std::min(a, b) < queues) return {};
  return format("The load saturates both sides: the median request waits %.0f and %.0f times as long for its first ",
                a, b) +
         "token as the luckiest twentieth, for prompts of one length. Queues amplify: a small difference in speed "
         "becomes a large one in TTFT. Compare TPOT, or take less load.";
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
  return format("Shared hardware suspected: TPOT of the primary is %.1f %% longer since its shadow began, at %s, with "
                "as many requests in flight (%.1f, before %.1f). ",
                100 * (change - 1), time_of_day(began).c_str(), after.mean_in_flight(), before.mean_in_flight()) +
         "A shadow on the primary's GPU, host or network slows both, and the comparison tells nothing of a candidate "
         "that has its own.";
}

}  // namespace

std::vector<Note> notes_of(const Comparison& comparison, const pairs::Load& load, const pairs::Pairing& pairing,
                           std::span<const statistics::Metric> drifting, std::span<const samples::Sample> samples) {
  std::vector<Note> notes;
  const auto add = [&](const char* code, std::string sentence) {
    if (!sentence.empty()) notes.push_back({code, std::move(sentence)});
  };
  if (!comparison.dropped.empty())
    add("nothing_mirrored",
        "Nothing was mirrored, so that no pair has both answers. The shadow was spared " +
            sides::counts_text(comparison.dropped) + ". " + sides::help_against(comparison.dropped));
  if (comparison.held) add("held", held_sentence(comparison));
  if (comparison.lost > 0) add("lost", lost_sentence(comparison));
  if (comparison.one_sided_blocks > 0) add("take_turns", turns_sentence(comparison));
  if (!load.same && !comparison.apart) notes.push_back({"load_differs", load_sentence(comparison, load)});
  if (load.same && (load.helped_a() || load.helped_b()))
    notes.push_back({"spared_load", spared_sentence(comparison, load)});
  if (const double differ = comparison.divergence.prompt_tokens_differ; differ > other_tokenizer) {
    notes.push_back(
        {"different_tokenizer",
         format("Different tokenizer or template: the same prompts differ by %.1f %% in tokens, so TPOT and output "
                "length count unlike tokens. Compare characters.",
                100 * differ)});
  }
  for (const Changed& changed : comparison.changes) add("changed", change_sentence(changed, comparison));
  add("long_requests", comparison.apart ? std::string() : long_sentence(comparison, load, pairing));
  add("heavy_tails", tails_sentence(comparison, pairing));
  add("saturated", saturated_sentence(pairing));
  add("shared_hardware", shared_sentence(comparison, pairing, samples));
  if (!drifting.empty()) notes.push_back({"slow_drift", drift_sentence(drifting)});
  if (comparison.mode == pairs::Mode::control) {
    notes.push_back(
        {"control",
         "Both sides are shadows of the same primary, and are compared answer by answer; so what a shadow's place "
         "changes is the same for both."});
  }
  if (comparison.mode == pairs::Mode::split && !comparison.apart) {
    notes.push_back(
        {"not_paired", comparison.a + " and " + comparison.b +
                           " had different requests, so their medians are compared, block by block. That holds "
                           "if their replicas have equal weight in one pool."});
  }
  if (comparison.warming > 0 && comparison.dropped.empty()) {
    std::string text = format("Pairs that are left out because the shadow was not warm yet: %llu.",
                              static_cast<unsigned long long>(comparison.warming));
    if (comparison.unfilled) text += " So far " + shortfall(*comparison.unfilled) + '.';
    notes.push_back({"warm_up", std::move(text)});
  }
  if (pairing.repeated > 0) {
    notes.push_back(
        {"several_answers", format("One side has several answers to %llu requests, and the first of each counts. "
                                   "Name one shadow or replica.",
                                   static_cast<unsigned long long>(pairing.repeated))});
  }
  return notes;
}

}  // namespace weir::metrics::compare::comparison
