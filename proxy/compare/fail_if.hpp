// Whether --fail-if makes `weir compare` fail, for continuous integration.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::proxy::compare {

/// The words that --fail-if takes.
inline constexpr std::array<std::string_view, 5> fail_if_words{"worse", "longer", "shorter", "inconclusive", "too_few"};
using FailIf = std::set<std::string, std::less<>>;

/// A verdict without its figures.
struct Judgement {
  std::string metric;
  metrics::compare::statistics::Finding finding = metrics::compare::statistics::Finding::inconclusive;
  bool known = false;           ///< The verdict has an interval; a fault, a verdict.
  bool may_be_unknown = false;  ///< That it is inconclusive does not count: half an hour seldom tells it.
};

/// Returns a sentence for each word that is met, which names its metrics; none if `weir compare` does not fail. A gate
/// does not pass on no data: where nothing is known it fails, whatever is asked for.
std::vector<std::string> failures(const FailIf& words, metrics::compare::comparison::State state,
                                  std::span<const Judgement> judgements);

/// Returns the judgements of the faults that a comparison's pairs tell of.
std::vector<Judgement> faults_of(const metrics::compare::comparison::Comparison& comparison);

/// Returns the judgements of a comparison: its metrics, and the faults of its answers.
std::vector<Judgement> judgements_of(const metrics::compare::comparison::Comparison& comparison);

}  // namespace weir::proxy::compare
