#include "balancer/rollout/split_gate.hpp"

#include <utility>

namespace weir::balancer::rollout {
namespace {

namespace mc = metrics::compare;

/// The evidence in a step of equal sides ever reaches it with a probability of 1 in 400 at most.
constexpr double empty_evidence = 400;

}  // namespace

SplitGate::SplitGate(std::shared_ptr<Names> names, std::span<const Sample* const> ended, const SplitSides& sides,
                     std::vector<mc::comparison::History> histories)
    : names_(std::move(names)), share_(sides.share) {
  const auto pool = names_->of(sides.pool), candidate = names_->of(sides.candidate);
  const auto stable = names_->of(sides.stable);
  for (const auto* const sample : ended) {
    if (sample->role != metrics::Role::primary || sample->pool != pool || sample->config == 0) continue;
    if (sample->served) {
      const bool is_empty = sample->outcome == metrics::Outcome::ok_empty;
      empty_ += sample->config == candidate ? Counts{1, is_empty, 0, 0} : Counts{0, 0, 1, is_empty};
    }
    samples_.push_back(*sample);
    if (sample->config != candidate) samples_.back().config = stable;
  }
  options_.histories = std::move(histories);
  options_.a = {mc::sides::By::config, stable, metrics::Role::primary};
  options_.b = {mc::sides::By::config, candidate, metrics::Role::primary};
  options_.slo = sides.slo;
}

Judged SplitGate::judge() const {
  Judged judged;
  judged.comparison = mc::comparison::compare(samples_, *names_, options_);
  judged.gate = mc::comparison::gate_of(judged.comparison, mc::comparison::SplitFaults::counted_elsewhere);
  if (empty_.candidate_bad < 2 || evidence(empty_, share_) < empty_evidence) return judged;
  judged.gate.word = mc::comparison::Gate::worse;
  judged.gate.worse.push_back("empty: " + std::to_string(empty_.candidate_bad) + " of " +
                              std::to_string(empty_.candidate) + " of the candidate's answers are empty, " +
                              std::to_string(empty_.stable_bad) + " of " + std::to_string(empty_.stable) +
                              " of the others'");
  return judged;
}

}  // namespace weir::balancer::rollout
