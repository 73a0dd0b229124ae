#include "metrics/compare/pairs/faults.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/statistics/intervals.hpp"

namespace weir::metrics::compare::pairs {
namespace {

/// True if the request was sent and its end tells of the replica: weir refused none of it and no client left early.
bool judged(const samples::Sample& sample) {
  if (sample.drop_reason != 0) return false;
  switch (sample.outcome) {
    case Outcome::client_abort:
      return sample.served;
    case Outcome::rejected:
    case Outcome::bad_request:
      return false;
    default:
      return true;
  }
}

/// A request that both sides refuse is its client's fault.
bool failed(const samples::Sample& sample, const samples::Sample& other) {
  if (sample.outcome == Outcome::client_error) return other.outcome != Outcome::client_error;
  return !sample.served;
}

/// OpenAI says length, Anthropic max_tokens, llama.cpp limit, and OpenAI's Responses max_output_tokens.
bool cut_by_length(const samples::Sample& sample, const samples::Names& names) {
  static constexpr std::array<std::string_view, 4> reasons{"length", "max_tokens", "limit", "max_output_tokens"};
  return std::ranges::find(reasons, names.text(sample.finish_reason)) != reasons.end();
}

constexpr std::size_t place(Fault fault) { return static_cast<std::size_t>(fault); }

}  // namespace

FaultsOfPair faults_of(const Pair& pair, bool control, const samples::Names& names,
                       const std::optional<config::Slo>& slo) {
  FaultsOfPair faults;
  const samples::Sample &a = *pair.a, &b = *pair.b;
  if (slo) {
    if (const auto met = samples::judge_pair(*slo, a, b)) faults[place(Fault::slo)] = {!met->a, !met->b};
  }
  if (!judged(a) || !judged(b)) return faults;
  faults[place(Fault::failed)] = {failed(a, b), failed(b, a)};
  if (!a.served || !b.served) return faults;
  faults[place(Fault::empty)] = {a.outcome == Outcome::ok_empty, b.outcome == Outcome::ok_empty};
  faults[place(Fault::length)] = {cut_by_length(a, names), cut_by_length(b, names)};
  if (const auto valid = valid_tools(pair); valid.known()) faults[place(Fault::tools)] = {valid.a == 0, valid.b == 0};
  faults[place(Fault::calls)] = {calls_tools(a, names), calls_tools(b, names)};
  if (control && a.same_tools >= 0 && b.same_tools >= 0)
    faults[place(Fault::other_calls)] = {a.same_tools == 0, b.same_tools == 0};
  return faults;
}

std::array<std::optional<bool>, fault_count> faults_of(const samples::Sample& sample, const samples::Names& names,
                                                       const std::optional<config::Slo>& slo) {
  std::array<std::optional<bool>, fault_count> faults;
  if (slo) {
    const auto attainment = samples::judge(*slo, sample, samples::Since::arrival);
    if (attainment == samples::Attainment::met) faults[place(Fault::slo)] = false;
    if (attainment == samples::Attainment::missed) faults[place(Fault::slo)] = true;
  }
  if (!judged(sample) || sample.outcome == Outcome::client_error) return faults;
  faults[place(Fault::failed)] = !sample.served;
  if (!sample.served) return faults;
  faults[place(Fault::empty)] = sample.outcome == Outcome::ok_empty;
  faults[place(Fault::length)] = cut_by_length(sample, names);
  return faults;
}

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

namespace {

/// Samples of primaries tell nothing of this.
TextLikeness likeness(std::span<const Pair> pairs, const samples::Sample* Pair::* side) {
  TextLikeness result;
  std::vector<std::uint32_t> prefixes;
  for (const Pair& pair : pairs) {
    const samples::Sample& sample = *(pair.*side);
    if (!sample.greedy || sample.same_text < 0) continue;
    result.text.add(sample.same_text == 1);
    if (sample.common_prefix_bytes != samples::unknown_count) prefixes.push_back(sample.common_prefix_bytes);
  }
  if (!prefixes.empty()) result.common_prefix_bytes = statistics::median(std::span(prefixes));
  return result;
}

}  // namespace

Divergence divergence_of(std::span<const Pair> pairs, const samples::Names& names) {
  Divergence result;
  double tokens_of_a = 0, differing = 0;
  for (const Pair& pair : pairs) {
    const samples::Sample &a = *pair.a, &b = *pair.b;
    if (a.status != 0 && b.status != 0) result.status.add(a.status == b.status);
    if (a.prompt_tokens != samples::unknown_count && b.prompt_tokens != samples::unknown_count) {
      result.prompt_tokens.add(a.prompt_tokens == b.prompt_tokens);
      tokens_of_a += a.prompt_tokens;
      differing +=
          a.prompt_tokens > b.prompt_tokens ? a.prompt_tokens - b.prompt_tokens : b.prompt_tokens - a.prompt_tokens;
    }
    if (a.served && b.served) {
      result.finish_reason.add(a.finish_reason == b.finish_reason);
      result.tool_calls.add(calls_tools(a, names), calls_tools(b, names));
    }
    if (const auto valid = valid_tools(pair); valid.known()) result.valid_tools.add(valid.a == 1, valid.b == 1);
    const samples::Sample& shadow = b.role == Role::shadow ? b : a;
    if (shadow.same_tools >= 0) result.tools.add(shadow.same_tools == 1);
  }
  if (tokens_of_a > 0) result.prompt_tokens_differ = differing / tokens_of_a;
  result.text_a = likeness(pairs, &Pair::a);
  result.text_b = likeness(pairs, &Pair::b);
  return result;
}

}  // namespace weir::metrics::compare::pairs
