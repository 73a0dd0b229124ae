#include "balancer/starts.hpp"

#include <algorithm>

namespace weir::balancer {

double median_of(std::span<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

void Starts::end_finished() {
  const auto& replicas = pool_.replicas;
  const auto starts = [](const PoolReplica& replica) { return replica.health.state() == ReplicaState::starting; };
  if (std::ranges::none_of(replicas.named(), starts)) return;
  held_.clear();
  held_.reserve(replicas.places());
  for (const PoolReplica& replica : replicas.named())
    if (replica.health.state() == ReplicaState::up) held_.push_back(static_cast<double>(replica.ledger.prefill_left()));
  const bool has_peers = !held_.empty();
  const double held_by_peers = median_of(held_);
  for (PoolReplica& replica : replicas.named()) {
    if (!starts(replica)) continue;
    const Tokens allowance = replica.allowance();
    if (allowance == 0) continue;
    const Tokens wanted = replica.ledger.prefill_left() + pool_.waiting.tokens();
    const double needed = has_peers ? held_by_peers : static_cast<double>(wanted);
    if (static_cast<double>(allowance) >= needed) replica.health.started(pool_.latest);
  }
}

}  // namespace weir::balancer
