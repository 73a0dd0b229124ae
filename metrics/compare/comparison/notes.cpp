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
  const bool b = load.spared_b >= load.spared_a;
  const std::uint64_t spared = b ? load.spared_b : load.spared_a;
  std::string text =
      (b ? comparison.b : comparison.a) +
      format(" has no finished answer to %llu of %llu requests (%.1f %%), with %.1f %% of the prompt tokens",
             static_cast<unsigned long long>(spared), static_cast<unsigned long long>(load.sampled),
             100.0 * static_cast<double>(spared) / static_cast<double>(load.sampled), 100 * load.prompt_tokens_spared);
  const auto most = std::max_element(load.spared_by_block.begin(), load.spared_by_block.end());
  const auto block = static_cast<std::size_t>(most - load.spared_by_block.begin());
  text += format("; most of them, %llu, from %s on (block %zu)", static_cast<unsigned long long>(*most),
                 time_of_day(comparison.window.begin_of(block)).c_str(), block + 1);
  text += "; by reason:";
  for (const auto& [reason, count] : load.unfinished) {
    text += (reason == load.unfinished.begin()->first ? " " : ", ") + reason + " " + std::to_string(count);
  }
  return text + ". It was spared that load, so there is no verdict on latency.";
}

std::string drift_sentence(std::span<const statistics::Metric> drifting) {
  std::string which = upper(drifting.front());
  if (drifting.size() > 1) which += " and " + upper(drifting.back());
  return "Slow drift: the difference in " + which +
         " of one minute is much like that of the minute before, so the interval is too narrow. Take a window of two "
         "hours.";
}

}  // namespace

std::vector<Note> notes_of(const Comparison& comparison, const pairs::Load& load, const pairs::Pairing& pairing,
                           std::span<const statistics::Metric> drifting) {
  std::vector<Note> notes;
  if (!load.same) notes.push_back({"load_differs", load_sentence(comparison, load)});
  if (load.same && load.spared()) notes.push_back({"spared_load", spared_sentence(comparison, load)});
  if (const double differ = comparison.divergence.prompt_tokens_differ; differ > other_tokenizer) {
    notes.push_back(
        {"different_tokenizer",
         format("Different tokenizer or template: the same prompts differ by %.1f %% in tokens, so TPOT and output "
                "length count unlike tokens. Compare characters.",
                100 * differ)});
  }
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
