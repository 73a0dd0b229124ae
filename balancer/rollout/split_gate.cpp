#include "balancer/rollout/split_gate.hpp"

#include <utility>

namespace weir::balancer::rollout {

namespace mc = metrics::compare;

SplitGate::SplitGate(std::shared_ptr<Names> names, std::span<const Sample* const> ended, const SplitSides& sides)
    : names_(std::move(names)) {
  const auto pool = names_->of(sides.pool), candidate = names_->of(sides.candidate);
  const auto stable = names_->of(sides.stable);
  for (const auto* const sample : ended) {
    if (sample->role != metrics::Role::primary || sample->pool != pool || sample->config == 0) continue;
    samples_.push_back(*sample);
    if (sample->config != candidate) samples_.back().config = stable;
  }
  options_.a = {mc::sides::By::config, stable, metrics::Role::primary};
  options_.b = {mc::sides::By::config, candidate, metrics::Role::primary};
  options_.slo = sides.slo;
}

Judged SplitGate::judge() const {
  Judged judged;
  judged.comparison = mc::comparison::compare(samples_, *names_, options_);
  judged.gate = mc::comparison::gate_of(judged.comparison);
  return judged;
}

}  // namespace weir::balancer::rollout
