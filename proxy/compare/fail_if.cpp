#include "proxy/compare/fail_if.hpp"

#include <algorithm>

namespace weir::proxy::compare {

using metrics::compare::comparison::State;
using metrics::compare::statistics::Finding;

std::vector<std::string> failures(const FailIf& words, State state, std::span<const Judgement> judgements) {
  std::vector<std::string> sentences;
  for (const std::string_view word : fail_if_words) {
    if (!words.contains(word)) continue;
    std::string metrics;
    for (const Judgement& one : judgements) {
      if (name_of(one.finding) != word || (one.finding == Finding::inconclusive && one.may_be_unknown)) continue;
      metrics += (metrics.empty() ? "" : ", ") + one.metric;
    }
    const std::string begin = "--fail-if " + std::string(word) + ": ";
    if (!metrics.empty()) sentences.push_back(begin + "so is " + metrics);
    if (word == "too_few" && state == State::too_few)
      sentences.push_back(begin + "the window is too short for a verdict, or has too few requests");
  }
  if (!words.empty() && sentences.empty() && std::ranges::none_of(judgements, &Judgement::known))
    sentences.emplace_back("--fail-if: there is no verdict yet, and a gate does not pass on no data");
  return sentences;
}

std::vector<Judgement> faults_of(const metrics::compare::comparison::Comparison& comparison) {
  std::vector<Judgement> judgements;
  for (const auto& fault : comparison.faults) {
    const bool known = fault.finding != Finding::inconclusive;
    if (fault.pairs.pairs() > 0) judgements.push_back({std::string(name_of(fault.fault)), fault.finding, known, true});
  }
  return judgements;
}

std::vector<Judgement> judgements_of(const metrics::compare::comparison::Comparison& comparison) {
  auto judgements = faults_of(comparison);
  for (const auto& verdict : comparison.verdicts) {
    judgements.push_back(
        {std::string(name_of(verdict.metric)), verdict.finding, verdict.interval.has_value(), is_tail(verdict.metric)});
  }
  return judgements;
}

}  // namespace weir::proxy::compare
