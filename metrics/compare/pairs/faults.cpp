#include "metrics/compare/pairs/faults.hpp"

#include <algorithm>

#include "metrics/compare/samples/attainment.hpp"

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

}  // namespace weir::metrics::compare::pairs
