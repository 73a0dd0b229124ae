#include "metrics/compare/pairs/sameness.hpp"

#include <algorithm>
#include <cmath>

namespace weir::metrics::compare::pairs {
namespace {

bool differs(const samples::Sample& answer) { return answer.same_text == 0; }

/// The checkpoint after which the answer leaves the primary's text; unknown_count if it does not.
std::uint32_t leaves_at(const samples::Sample& answer) {
  constexpr std::uint32_t somewhere = samples::unknown_count - 1;
  return differs(answer) ? std::min(answer.common_prefix_bytes, somewhere) : samples::unknown_count;
}

bool leaves_at_start(const samples::Sample& answer) { return leaves_at(answer) == 0; }

void add(Leaving& leaving, const samples::Sample& answer) {
  leaving.requests += differs(answer);
  leaving.at_start += leaves_at_start(answer);
  if (answer.output_tokens == samples::unknown_count) return;
  const auto tokens = static_cast<double>(answer.output_tokens);
  if (!differs(answer)) {
    leaving.tokens += tokens;
  } else if (answer.common_prefix_bytes != samples::unknown_count && answer.output_chars != samples::unknown_count) {
    const double share = answer.common_prefix_bytes / std::max(1.0, static_cast<double>(answer.output_chars));
    leaving.tokens += tokens * std::min(share, 1.0);
  }
}

/// Returns a number of a prompt: two prompts of one conversation, turn and length are taken as one. Where no
/// conversation is known, its length alone tells. 0 is unknown.
std::uint64_t prompt_of(const samples::Sample& sample) {
  if (sample.group == 0 && sample.prompt_tokens == samples::unknown_count) return 0;
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  const std::uint64_t length = sample.prompt_chars + (std::uint64_t{sample.prompt_tokens} << 32) + 1;
  return (sample.group ^ (sample.turn * odd)) * odd ^ length * odd;
}

double evidence(double log) { return std::exp(std::clamp(log, 0.0, 687.0)); }

}  // namespace

std::optional<double> Leaving::per_thousand_tokens() const {
  return tokens > 0 ? std::optional(1000 * static_cast<double>(requests) / tokens) : std::nullopt;
}

std::optional<double> Sameness::hazard_ratio() const {
  return first_a > 0 ? std::optional(static_cast<double>(first_b) / static_cast<double>(first_a)) : std::nullopt;
}

void Sameness::add(std::span<const Pair> pairs, bool with_control) {
  control = with_control;
  for (const Pair& pair : pairs) {
    // Beside a primary, only the shadow's sample tells of text; the primary is itself.
    const samples::Sample &of_a = *pair.a, &of_b = *pair.b;
    if (!of_a.served || !of_b.served) continue;
    const bool known_a = control ? of_a.same_text >= 0 : of_a.role == Role::primary;
    if (!of_a.greedy || !of_b.greedy || !known_a || of_b.same_text < 0) continue;
    pairs::add(a, of_a);
    pairs::add(b, of_b);
    const auto prompt = prompt_of(pair.primary_or_a());
    if (prompt != 0 && prompts.size() < most_prompts && !prompts.insert(prompt).second) {
      ++repeated;
      continue;
    }
    ++compared;
    if (leaves_at_start(of_a) != leaves_at_start(of_b)) ++(leaves_at_start(of_b) ? at_start_b : at_start_a);
    const auto at_a = leaves_at(of_a), at_b = leaves_at(of_b);
    if (at_a != at_b) ++(at_b < at_a ? first_b : first_a);
  }
}

double Sameness::differs() const {
  if (!control) return 1;
  return evidence(statistics::log_evidence_of_more(
      {static_cast<double>(first_a), static_cast<double>(first_b), static_cast<double>(compared), std::nullopt}));
}

double Sameness::alike() const {
  constexpr double ratio = 1.5, excess = 0.005;
  if (!control) return 1;
  return evidence(statistics::log_evidence_below(
      {static_cast<double>(first_a), static_cast<double>(first_b), static_cast<double>(compared), std::nullopt}, ratio,
      excess));
}

double Sameness::from_start() const {
  if (!control) return 1;
  return evidence(statistics::log_evidence_of_more(
      {static_cast<double>(at_start_a), static_cast<double>(at_start_b), static_cast<double>(compared), std::nullopt}));
}

}  // namespace weir::metrics::compare::pairs
