#include "balancer/pool_figures.hpp"

#include <algorithm>

namespace weir::balancer {
namespace {

/// Tells of the latest request that went to a busy replica, while that is so.
void tell_passed_over(ReplicaLoad& load, const PoolReplica& replica, const PoolState& pool) {
  constexpr double told_for = 10;
  const PoolReplica* const chosen = pool.replicas.find(replica.passed_over.chosen);
  if (load.in_flight > 0 || !chosen || metrics::seconds(pool.latest - replica.passed_over.at) > told_for) return;
  load.passed_over = replica.passed_over;
  load.passed_over_for = chosen->spec.name;
}

ReplicaLoad load_of(PoolReplica& replica, const PoolState& pool) {
  const Moment now = pool.latest;
  TokenLedger& ledger = replica.ledger;
  ledger.advance(now);
  ReplicaLoad load;
  load.key = replica.key;
  load.name = replica.spec.name;
  load.prefill_left = ledger.prefill_left();
  load.decode_left = ledger.decode_left();
  load.resident = ledger.resident();
  load.in_flight = ledger.in_flight();
  load.oldest_unanswered_seconds = ledger.oldest_unanswered_seconds();
  load.silent_seconds = ledger.silent_seconds(now);
  load.busy_seconds = ledger.busy_seconds();
  load.prefill_seconds = ledger.prefill_seconds();
  load.decode_seconds = ledger.decode_seconds();
  load.time = replica.time.model(now);
  tell_passed_over(load, replica, pool);
  load.prefix_aware = pool.counts_cached;
  const ReplicaPrefixes& prefix = pool.prefixes.of(replica.key.index);
  load.prefix = prefix.sums();
  load.prefix_believed = prefix.believed();
  load.prefix_held = prefix.holdings().held();
  load.prefix_capacity = prefix.holdings().capacity();
  load.fallbacks = {
      {"kv_full", replica.kv_full}, {"unknown_prompt", replica.unknown_prompt}, {"panic", replica.panic}};
  return load;
}

QueueFigures figures_of(const WaitingQueue& waiting, Moment now) {
  const auto oldest = waiting.oldest();
  return {waiting.size(), waiting.tokens(), waiting.bytes(), oldest ? metrics::seconds(now - *oldest) : 0};
}

}  // namespace

ReplicaLoad PoolLoad::of(const ReplicaKey& replica) const {
  const auto found = std::ranges::find(replicas, replica, &ReplicaLoad::key);
  return found == replicas.end() ? ReplicaLoad() : *found;
}

PoolLoad PoolFigures::load(Moment now) {
  return core_.locked([&](PoolParts& parts) {
    PoolState& pool = parts.state;
    pool.pass(now);
    PoolLoad load{pool.in_flight, figures_of(pool.waiting, pool.latest), {}};
    for (PoolReplica& replica : pool.replicas.all()) load.replicas.push_back(load_of(replica, pool));
    return load;
  });
}

QueueFigures PoolFigures::queue(Moment now) {
  return core_.locked([&](PoolParts& parts) {
    const WaitingQueue& waiting = parts.state.waiting;
    return figures_of(waiting, waiting.empty() ? now : parts.state.pass(now));
  });
}

std::uint32_t PoolFigures::in_flight() const {
  return core_.locked([](PoolParts& parts) { return parts.state.in_flight; });
}

std::uint32_t PoolFigures::in_flight(const ReplicaKey& key) const {
  return core_.locked([&](PoolParts& parts) {
    const PoolReplica* const replica = parts.state.replicas.find(key);
    return replica == nullptr ? 0 : replica->ledger.in_flight();
  });
}

ReplicaLoad PoolFigures::load(const ReplicaKey& key, Moment now) {
  return core_.locked([&](PoolParts& parts) {
    PoolReplica* const replica = parts.state.replicas.find(key);
    if (replica == nullptr) return ReplicaLoad();
    parts.state.pass(now);
    return load_of(*replica, parts.state);
  });
}

bool PoolFigures::has(std::uint64_t identity) {
  return core_.locked([&](PoolParts& parts) {
    return std::ranges::any_of(parts.state.replicas.named(),
                               [&](const PoolReplica& one) { return one.identity == identity; });
  });
}

ReplicaKey PoolFigures::key(ReplicaIndex index) const {
  return core_.locked([&](PoolParts& parts) { return parts.state.replicas.key_at(index); });
}

}  // namespace weir::balancer
