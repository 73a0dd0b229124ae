#include "metrics/compare/pairs/faults.hpp"

#include <algorithm>

#include "metrics/compare/pairs/tool_calls.hpp"

namespace weir::metrics::compare::pairs {
namespace {

/// Five in a hundred, over four kinds.
constexpr double evidence_needed = fault_count / 0.05;

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

}  // namespace

statistics::Finding FaultPairs::judge(unsigned comparisons) const {
  const double needed = evidence_needed * comparisons;
  if (pairs.more_in_b() >= needed) return statistics::Finding::worse;
  if (pairs.more_in_a() >= needed) return statistics::Finding::better;
  return pairs.difference().high <= margin ? statistics::Finding::not_worse : statistics::Finding::inconclusive;
}

Faults faults_of(std::span<const Pair> pairs, const samples::Names& names, const FaultMargins& margins,
                 const Faults& earlier) {
  Faults faults = earlier;
  for (std::size_t i = 0; i < fault_count; ++i) {
    faults[i].fault = static_cast<Fault>(i);
    faults[i].margin = margins[i];
  }
  const auto add = [&](Fault fault, bool a, bool b) { faults[static_cast<std::size_t>(fault)].pairs.add(a, b); };
  for (const Pair& pair : pairs) {
    const samples::Sample &a = *pair.a, &b = *pair.b;
    if (!judged(a) || !judged(b)) continue;
    add(Fault::failed, failed(a, b), failed(b, a));
    if (!a.served || !b.served) continue;
    add(Fault::empty, a.outcome == Outcome::ok_empty, b.outcome == Outcome::ok_empty);
    add(Fault::length, cut_by_length(a, names), cut_by_length(b, names));
    if (const auto valid = valid_tools(pair); valid.known()) add(Fault::tools, valid.a == 0, valid.b == 0);
  }
  for (FaultPairs& one : faults) one.finding = one.judge();
  return faults;
}

}  // namespace weir::metrics::compare::pairs
