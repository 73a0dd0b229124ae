#include "metrics/compare/comparison/notes.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "metrics/compare/comparison/why.hpp"
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
  text += format("; most of them, %llu, from %s on (block %zu)", static_cast<unsigned long long>(*most),
                 time_of_day(comparison.window.begin_of(block)).c_str(), block + 1);
  text += "; by reason:";
  for (const auto& [reason, count] : spared.by_reason) {
    text += (reason == spared.by_reason.begin()->first ? " " : ", ") + reason + " " + std::to_string(count);
  }
  return text + ". " + side +
         " was spared that load, so its latency may look better than it is: the only verdict on latency is that " +
         side + " is worse.";
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

/// Returns "" if no request lasted longer than a block.
std::string long_sentence(const Comparison& comparison, const pairs::Load& load, const pairs::Pairing& pairing) {
  const double block_s = comparison.window.block_s();
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

std::vector<Note> notes_of(const Comparison& comparison, const pairs::Load& load, const pairs::Pairing& pairing,
                           std::span<const statistics::Metric> drifting) {
  std::vector<Note> notes;
  if (!load.same) notes.push_back({"load_differs", load_sentence(comparison, load)});
  if (load.same && (load.helped_a() || load.helped_b()))
    notes.push_back({"spared_load", spared_sentence(comparison, load)});
  if (const double differ = comparison.divergence.prompt_tokens_differ; differ > other_tokenizer) {
    notes.push_back(
        {"different_tokenizer",
         format("Different tokenizer or template: the same prompts differ by %.1f %% in tokens, so TPOT and output "
                "length count unlike tokens. Compare characters.",
                100 * differ)});
  }
  if (auto text = long_sentence(comparison, load, pairing); !text.empty())
    notes.push_back({"long_requests", std::move(text)});
  if (!drifting.empty()) notes.push_back({"slow_drift", drift_sentence(drifting)});
  if (comparison.mode == pairs::Mode::control) {
    notes.push_back(
        {"control",
         "Both sides are shadows of the same primary, and are compared answer by answer; so what a shadow's place "
         "changes is the same for both."});
  }
  if (comparison.mode == pairs::Mode::split) {
    notes.push_back(
        {"not_paired", comparison.a + " and " + comparison.b +
                           " had different requests, so their medians are compared, block by block. That holds "
                           "if their replicas have equal weight in one pool."});
  }
  if (comparison.warming > 0) {
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
