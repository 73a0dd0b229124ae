#include "balancer/pool.hpp"

#include <algorithm>
#include <utility>

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
  static_cast<Gauges&>(load) = ledger.gauges();
  static_cast<TokenLedger::Integrals&>(load) = ledger.integrals();
  const TokenLedger::Silence silence = ledger.silence(now);
  load.oldest_unanswered_seconds = silence.oldest_unanswered_seconds;
  load.silent_seconds = silence.seconds;
  load.time = replica.time.model(now);
  tell_passed_over(load, replica, pool);
  load.prefix_aware = pool.counts_cached();
  const ReplicaPrefixes& prefix = pool.prefixes.of(replica.key.index);
  load.prefix = prefix.sums();
  load.prefix_believed = prefix.believed();
  load.prefix_held = prefix.holdings().held();
  load.prefix_capacity = prefix.holdings().capacity();
  const auto& [kv_full, unknown_prompt, panic] = replica.fallbacks;
  load.fallbacks = {{"kv_full", kv_full}, {"unknown_prompt", unknown_prompt}, {"panic", panic}};
  return load;
}

}  // namespace

std::shared_ptr<Pool> Pool::make(config::Policy policy, std::uint64_t seed, GrantSink* sink) {
  return std::shared_ptr<Pool>(new Pool(policy, seed, sink));
}

Pool::Pool(config::Policy policy, std::uint64_t seed, GrantSink* sink) : core_(sink, *this, seed) {
  set_policy(policy);
}

void Pool::set_limits(const PoolLimits& limits, Moment now) {
  core_.granting(now, [&](PoolState& pool, PendingGrants& grants) {
    pool.limits = limits;
    pool.serve(grants);
    pool.bound(grants);
  });
}

void Pool::set_policy(config::Policy policy) {
  core_.locked([&](PoolState& pool) { pool.set_policy(policy); });
}

void Pool::set_prefix_aware(bool aware) {
  core_.locked([&](PoolState& pool) { pool.set_prefix_aware(aware); });
}

void Pool::set_split(std::optional<double> share, Moment now) {
  core_.free_room(now, [&](PoolState& pool) { pool.set_split(share); });
}

SplitFigures Pool::split() {
  return core_.locked([](PoolState& pool) -> SplitFigures { return pool.split; });
}

void Pool::note_overdue(Moment sent_before) {
  core_.locked([&](PoolState& pool) { pool.split.note_overdue(sent_before); });
}

std::vector<ReplicaIndex> Pool::set_replicas(std::span<const ReplicaSpec> specs, Moment now) {
  return core_.free_room(now, [&](PoolState& pool) { return pool.set_replicas(specs); });
}

Offered Pool::offer(const PlacementRequest& placement, Moment now) {
  return core_.granting(
      now, [&](PoolState& pool, PendingGrants& grants) { return pool.offer(placement, core_.has_sink(), grants); });
}

std::optional<Refused> Pool::leave(WaitTicket ticket, Moment now) {
  return core_.free_room(now, [&](PoolState& pool) { return pool.leave(ticket); });
}

bool Pool::another_is_left(std::span<const Serial> tried, Serial beside) {
  return core_.locked([&](PoolState& pool) { return pool.replicas.another_is_left(tried, beside); });
}

bool Pool::can_spare_one() {
  return core_.locked([](PoolState& pool) { return pool.replicas.may_eject(); });
}

Tokens Pool::first_token(const LedgerEntry& entry, Moment now) {
  return core_.free_room(now, [&](PoolState& pool) { return pool.first_token(entry); });
}

void Pool::stalled(const LedgerEntry& entry) {
  core_.locked([&](PoolState& pool) { pool.split.note_stalled(entry.number); });
}

void Pool::leave_unread(const LedgerEntry& entry, bool unread) {
  core_.locked(
      [&](PoolState& pool) { pool.replicas[entry.key.index].ledger.leave_unread(entry.ticket, unread, pool.latest); });
}

Concurrency Pool::end(LedgerEntry entry, const LeaseEnd& end, Moment now) {
  return core_.free_room(now, [&](PoolState& pool) { return pool.end(entry, end); });
}

ReplicaLoad PoolLoad::of(const ReplicaKey& replica) const {
  const auto found = std::ranges::find(replicas, replica, &ReplicaLoad::key);
  return found == replicas.end() ? ReplicaLoad() : *found;
}

PoolLoad PoolFigures::load(Moment now) {
  return core_.locked([&](PoolState& pool) {
    pool.pass(now);
    PoolLoad load{pool.in_flight, pool.waiting.figures(pool.latest), {}};
    for (PoolReplica& replica : pool.replicas.all()) load.replicas.push_back(load_of(replica, pool));
    return load;
  });
}

QueueFigures PoolFigures::queue(Moment now) {
  return core_.locked([&](PoolState& pool) {
    const WaitingQueue& waiting = pool.waiting;
    return waiting.figures(waiting.empty() ? now : pool.pass(now));
  });
}

std::uint32_t PoolFigures::in_flight() const {
  return core_.locked([](PoolState& pool) { return pool.in_flight; });
}

std::uint32_t PoolFigures::in_flight(const ReplicaKey& key) const {
  return core_.locked([&](PoolState& pool) {
    const PoolReplica* const replica = pool.replicas.find(key);
    return replica == nullptr ? 0 : replica->ledger.gauges().in_flight;
  });
}

ReplicaLoad PoolFigures::load(const ReplicaKey& key, Moment now) {
  return core_.locked([&](PoolState& pool) {
    PoolReplica* const replica = pool.replicas.find(key);
    if (replica == nullptr) return ReplicaLoad();
    pool.pass(now);
    return load_of(*replica, pool);
  });
}

bool PoolFigures::has(std::uint64_t identity) {
  return core_.locked([&](PoolState& pool) {
    return std::ranges::any_of(pool.replicas.named(), [&](const PoolReplica& one) { return one.identity == identity; });
  });
}

ReplicaKey PoolFigures::key(ReplicaIndex index) const {
  return core_.locked([&](PoolState& pool) { return pool.replicas.key_at(index); });
}

}  // namespace weir::balancer
