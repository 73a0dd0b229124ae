// The queue of a pool: requests wait, are granted what has become free in the order of their turns, and are refused
// where their turn would come too late or the queue is full. Replicas are kept free for requests that have had their
// turn and fitted nowhere while others went.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <variant>

#include "balancer/pool_state.hpp"

namespace weir::balancer {

Offered PoolState::offer(const PlacementRequest& placement, bool can_wait, PendingGrants& grants) {
  WaitingRequest request{placement};
  if (!counts_cached()) request.prefix = nullptr;
  std::ranges::sort(request.tried);
  request.model = model_id(request.facts->model);
  request.since = latest;
  estimate(request);

  can_wait = can_wait && request.waiter && limits.queue > 0;
  const bool others_wait = can_wait && !waiting.empty();
  // A request that comes back does not go at once to where one has just failed.
  look(others_wait || (can_wait && request.front_of_queue));
  const Narrowed narrowed = find(request, 0, can_wait);
  switch (narrowed.eligibility) {
    case Eligibility::no_replica:
      if (!can_wait || !limits.expects_replicas) return refuse(Refused::Reason::no_replica, request);
      break;
    case Eligibility::too_long:
      return Refused{Refused::Reason::too_long};
    case Eligibility::busy:
      if (!can_wait) return refuse(Refused::Reason::busy, request);
      break;
    case Eligibility::some:
    case Eligibility::kv_full:
      if (!others_wait) return Admitted{take(request, narrowed)};
  }
  const auto time = replicas.none_up() ? limits.queue_time_none_up : limits.queue_time;
  if (!request.deadline) request.deadline = latest + std::chrono::duration_cast<Moment::duration>(time);
  return wait(std::move(request), grants);
}

/// Puts the request into the queue and serves that. The request may have been granted then, or be refused.
Offered PoolState::wait(WaitingRequest placed, PendingGrants& grants) {
  placed.output_cost = output_cost(*placed.facts);
  const WaitTicket ticket = waiting.push(std::move(placed));
  grants.keep(ticket);
  serve(grants);
  if (const WaitingRequest* const request = waiting.find(ticket); request && comes_too_late(*request)) {
    const bool expired = *request->deadline <= latest;
    const auto left = waiting.leave(ticket);
    return refuse(expired ? Refused::Reason::expired : Refused::Reason::too_late, *left);
  }
  bound(grants);
  auto decided = grants.take_kept();
  if (!decided) return Waiting{ticket, *waiting.find(ticket)->deadline};
  if (auto* const lease = std::get_if<Lease>(&*decided)) return Admitted{std::move(*lease)};
  return std::get<Refused>(*decided);
}

std::optional<Refused> PoolState::leave(WaitTicket ticket) {
  const auto request = waiting.leave(ticket);
  if (!request) return std::nullopt;
  return refuse(Refused::Reason::expired, *request);
}

/// By the rate of the last seconds, the newest request has its turn after its deadline. The rate says nothing while no
/// replica is up, and nothing of one that goes before all turns.
bool PoolState::comes_too_late(const WaitingRequest& request) const {
  if (*request.deadline <= latest) return true;
  if (request.front_of_queue) return false;
  const auto rate = drain_rate();
  if (!rate || replicas.none_up()) return false;
  const double tokens_in_time = *rate * metrics::seconds(*request.deadline - latest);
  if (static_cast<double>(waiting.tokens()) <= tokens_in_time) return false;
  return static_cast<double>(waiting.ahead_of(request.fair_key)) > tokens_in_time;
}

void PoolState::bound(PendingGrants& grants) {
  const auto bytes = [&] { return waiting.figures(latest).waiting_bytes; };
  while (waiting.size() > limits.queue || bytes() > limits.queue_bytes) {
    const bool requests = waiting.size() > limits.queue;
    auto [ticket, request] = waiting.push_out(requests ? WaitingQueue::Bound::requests : WaitingQueue::Bound::bytes);
    const auto reason = requests ? Refused::Reason::queue_full : Refused::Reason::queue_bytes_full;
    const Refused refused = refuse(reason, request);
    grants.add(ticket, std::move(request.waiter), refused);
  }
  if (drop_reservations()) serve(grants);
}

void PoolState::serve(PendingGrants& grants) {
  if (waiting.empty()) {
    drop_reservations();
    return;
  }
  const auto look_again = [this] {
    look(true);
    drop_reservations();
  };
  for (look_again(); !waiting.empty() && any_may_take(waiting.shortest()); look_again())
    if (!serve_reserved(grants) && !serve_next(grants)) break;
  reserve();
}

/// Grants the request whose turn it is.
bool PoolState::serve_next(PendingGrants& grants) {
  const auto next = waiting.next([&](const WaitingRequest& request) { return takes(find(request, 0, true)); }, latest);
  if (!next) return false;
  const WaitTicket ticket = next->ticket;
  const Narrowed narrowed = find(next->request, ticket, true);
  Lease lease = take(next->request, narrowed);
  grants.add(ticket, waiting.take_in_turn(ticket, latest).waiter, std::move(lease));
  return true;
}

/// Grants the first request that fits where a replica, or the whole pool, is reserved for it.
bool PoolState::serve_reserved(PendingGrants& grants) {
  if (serve_reserved(reserved_for_, grants)) return true;
  for (const ReplicaView& view : seen_.views)
    if (serve_reserved(replicas[view.index].reserved_for, grants)) return true;
  return false;
}

bool PoolState::serve_reserved(const std::optional<WaitTicket>& reserved_for, PendingGrants& grants) {
  if (!reserved_for) return false;
  const WaitTicket ticket = *reserved_for;
  const WaitingRequest& request = *waiting.find(ticket);
  const Narrowed narrowed = find(request, ticket, true);
  if (!takes(narrowed)) return false;
  Lease lease = take(request, narrowed);
  grants.add(ticket, waiting.take(ticket).waiter, std::move(lease));
  return true;
}

bool PoolState::drop_reservations() {
  bool any = false;
  const auto drop_if_over = [&](std::optional<WaitTicket>& reserved_for, auto is_it) {
    if (!reserved_for) return;
    const WaitingRequest* const request = waiting.find(*reserved_for);
    if (request != nullptr && find_reservable(*request, *reserved_for) && std::ranges::any_of(found_, is_it)) return;
    reserved_for.reset();
    any = true;
  };
  drop_if_over(reserved_for_, [](const ReplicaView&) { return true; });
  for (PoolReplica& replica : replicas.all())
    drop_if_over(replica.reserved_for, [&](const ReplicaView& view) { return view.index == replica.key.index; });
  return any;
}

void PoolState::reserve() {
  const auto replica_of = [this](const ReplicaView& view) -> PoolReplica& { return replicas[view.index]; };
  const auto is_reserved = [&](const ReplicaView& view) { return replica_of(view).reserved_for.has_value(); };
  const auto takes_none = [](const ReplicaView& view) { return view.draining || view.refuses; };
  const auto open = seen_.views.size() - static_cast<std::size_t>(std::ranges::count_if(seen_.views, takes_none));
  const std::size_t most = std::max<std::size_t>(1, open / 2);
  auto reserved = static_cast<std::size_t>(std::ranges::count_if(seen_.views, is_reserved));
  for (const auto& [since, ticket] : waiting.passed()) {
    if (latest - since < reserve_after || reserved >= most) return;
    const WaitingRequest& request = *waiting.find(ticket);
    if (!find_reservable(request, ticket)) continue;
    const auto has_room = [&](const ReplicaView& view) { return pool_has_room(view.uncached(request.prompt)); };
    if (std::ranges::none_of(found_, has_room)) {
      if (!reserved_for_) reserved_for_ = ticket;
      continue;
    }
    const auto is_its_own = [&, ticket = ticket](const ReplicaView& view) {
      return replica_of(view).reserved_for == ticket;
    };
    if (std::ranges::any_of(seen_.views, is_its_own)) continue;
    const auto load_of = [&](const ReplicaView& view) {
      const auto queued = static_cast<double>(replica_of(view).ledger.gauges().prefill_left);
      return std::pair(!has_room(view), queued * view.time.token / view.weight);
    };
    replica_of(*std::ranges::min_element(found_, {}, load_of)).reserved_for = ticket;
    ++reserved;
  }
}

double PoolState::seconds_until_done(const WaitingRequest& request) const {
  constexpr double least_assumed = 5, assumed_rate = 4000;
  double tokens = static_cast<double>(waiting.tokens() + request.uncached());
  double learned = 0, those_in = 0, those_known = 0;
  for (const PoolReplica& replica : replicas.named()) {
    tokens += static_cast<double>(replica.ledger.gauges().prefill_left);
    if (!replica.is_in()) continue;
    ++those_in;
    const auto rate = replica.time.prompt_rate();
    learned += rate.value_or(0);
    those_known += rate ? 1 : 0;
  }
  if (const auto rate = drain_rate()) return tokens / *rate;
  const double of_one = those_known > 0 ? learned / those_known : assumed_rate;
  return std::max(least_assumed, those_in > 0 ? tokens / (of_one * those_in) : 0);
}

Refused PoolState::refuse(Refused::Reason reason, const WaitingRequest& request) const {
  constexpr double longest = 40, of_the_time = 0.85;
  const double told = std::clamp(std::ceil(of_the_time * seconds_until_done(request)), 1.0, longest);
  return {reason, static_cast<unsigned>(told)};
}

}  // namespace weir::balancer
