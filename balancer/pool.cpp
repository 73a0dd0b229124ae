#include "balancer/pool.hpp"

#include <algorithm>
#include <utility>

#include "balancer/retry_after.hpp"

namespace weir::balancer {

std::shared_ptr<Pool> Pool::make(config::Policy policy, std::uint64_t seed, GrantSink* sink) {
  return std::shared_ptr<Pool>(new Pool(policy, seed, sink));
}

Pool::Pool(config::Policy policy, std::uint64_t seed, GrantSink* sink)
    : core_(sink, *this, seed) {
  set_policy(policy);
}

void Pool::set_limits(const PoolLimits& limits, Moment now) {
  core_.granting(now, [&](PoolParts& parts, PendingGrants& grants) {
    parts.state.limits = limits;
    parts.queue.serve(grants);
    parts.queue.bound(grants);
  });
}

void Pool::set_policy(config::Policy policy) {
  core_.locked([&](PoolParts& parts) {
    parts.state.policy = policy;
    parts.apply_policy();
  });
}

void Pool::set_prefix_aware(bool aware) {
  core_.locked([&](PoolParts& parts) {
    parts.state.prefix_aware = aware;
    parts.apply_policy();
  });
}

void Pool::set_split(std::optional<double> share, Moment now) {
  core_.free_room(now, [&](PoolParts& parts) {
    parts.state.split.set(share);
    parts.state.close_candidates();
  });
}

SplitFigures Pool::split() {
  return core_.locked([](PoolParts& parts) -> SplitFigures { return parts.state.split; });
}

void Pool::note_overdue(Moment sent_before) {
  core_.locked([&](PoolParts& parts) { parts.state.split.note_overdue(sent_before); });
}

std::vector<ReplicaIndex> Pool::set_replicas(std::span<const ReplicaSpec> specs, Moment now) {
  return core_.free_room(now, [&](PoolParts& parts) {
    // Whatever fails behind this, each replica has its place in the index.
    parts.state.prefixes.set_places(parts.state.replicas.places_for(specs));
    auto indices = parts.state.replicas.set(specs, parts.state.latest);
    parts.state.close_candidates();
    for (const PoolReplica& replica : parts.state.replicas.named())
      parts.state.prefixes.place(replica.key, replica.kv_tokens().value_or(0));
    parts.state.share_steps();
    parts.queue.note_fits();
    return indices;
  });
}

Offered Pool::offer(const PlacementRequest& placement, Moment now) {
  WaitingRequest request;
  request.facts = placement.facts;
  request.waiter = placement.waiter;
  request.key = placement.fair_key;
  request.caller = placement.caller;
  request.model = model_id(placement.facts->model);
  request.share = placement.share;
  request.bytes = placement.bytes;
  request.lot = placement.lot;
  request.ties = placement.ties;
  request.front_of_queue = placement.front_of_queue;
  return core_.granting(now, [&](PoolParts& parts, PendingGrants& grants) -> Offered {
    const PoolState& pool = parts.state;
    if (pool.counts_cached) request.prefix = placement.prefix;
    parts.leases.estimate(request);
    request.tried.assign(placement.tried.begin(), placement.tried.end());
    std::ranges::sort(request.tried);
    request.since = pool.latest;

    const bool can_wait = core_.has_sink() && placement.waiter && pool.limits.queue > 0;
    const bool others_wait = can_wait && !pool.waiting.empty();
    // A request that comes back does not go at once to where one has just failed.
    parts.candidates.look(others_wait || (can_wait && placement.front_of_queue));
    const Narrowed narrowed = parts.candidates.find(request, 0, can_wait);
    switch (narrowed.eligibility) {
      case Eligibility::no_replica:
        if (!can_wait || !pool.limits.expects_replicas)
          return refuse(parts.state, Refused::Reason::no_replica, request);
        break;
      case Eligibility::too_long:
        return Refused{Refused::Reason::too_long};
      case Eligibility::busy:
        if (!can_wait) return refuse(parts.state, Refused::Reason::busy, request);
        break;
      case Eligibility::some:
      case Eligibility::kv_full:
        if (!others_wait) return Admitted{parts.leases.take(request, narrowed, parts.candidates.found())};
    }
    const auto time = pool.replicas.none_up() ? pool.limits.queue_time_none_up : pool.limits.queue_time;
    request.deadline = placement.deadline.value_or(pool.latest + std::chrono::duration_cast<Moment::duration>(time));
    return parts.queue.wait(std::move(request), grants);
  });
}

std::optional<Refused> Pool::leave(WaitTicket ticket, Moment now) {
  return core_.free_room(now, [&](PoolParts& parts) -> std::optional<Refused> {
    const auto request = parts.state.waiting.leave(ticket);
    if (!request) return std::nullopt;
    return refuse(parts.state, Refused::Reason::expired, *request);
  });
}

bool Pool::another_is_left(std::span<const Serial> tried, Serial beside) {
  return core_.locked([&](PoolParts& parts) { return parts.state.replicas.another_is_left(tried, beside); });
}

bool Pool::can_spare_one() {
  return core_.locked([](PoolParts& parts) { return parts.state.replicas.may_eject(); });
}

Tokens Pool::first_token(const LedgerEntry& entry, Moment now) {
  return core_.free_room(now, [&](PoolParts& parts) { return parts.leases.first_token(entry); });
}

void Pool::stalled(const LedgerEntry& entry) {
  core_.locked([&](PoolParts& parts) { parts.state.split.note_stalled(entry.number); });
}

void Pool::leave_unread(const LedgerEntry& entry, bool unread) {
  core_.locked([&](PoolParts& parts) { parts.leases.leave_unread(entry, unread); });
}

Concurrency Pool::end(LedgerEntry entry, const LeaseEnd& end, Moment now) {
  return core_.free_room(now, [&](PoolParts& parts) { return parts.leases.end(entry, end); });
}

}  // namespace weir::balancer
