#include "balancer/queue_server.hpp"

#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

#include "balancer/rendezvous.hpp"
#include "balancer/retry_after.hpp"

namespace weir::balancer {

void QueueServer::note_fits() {
  Bounds bounds;
  std::map<ModelId, std::vector<Serial>> listed_by;
  for (const PoolReplica& replica : pool_.replicas.named()) {
    if (const auto context = replica.context()) {
      bounds.contexts.insert(*context);
      bounds.longest_prompts.insert(*context);
    }
    bounds.replicas.emplace_back(replica.identity, replica.spec.weight);
    if (const auto longest = replica.longest_prompt()) bounds.longest_prompts.insert(*longest);
    if (!pool_.lists_differ) continue;
    for (const ModelId model : replica.models.list()) listed_by[model].push_back(replica.key.serial);
  }
  std::map<std::vector<Serial>, std::size_t> numbers;
  for (const auto& [model, replicas] : listed_by)
    bounds.listed[model] = numbers.try_emplace(replicas, numbers.size() + 1).first->second;
  pool_.waiting.regroup([&bounds](const WaitingRequest& request) { return bounds.fit_of(request); });
  bounds_ = std::move(bounds);
}

/// Returns the same number for names that have the same two replicas first. Clients make up names: groups are few.
std::uint64_t QueueServer::Bounds::first_two(std::uint64_t name) const {
  std::array<std::pair<double, std::uint64_t>, 2> first{};
  for (const auto& [identity, weight] : replicas) {
    const std::pair one(rendezvous(name, identity, weight), identity);
    if (one > first[0]) first = {one, first[0]};
    else if (one > first[1]) first[1] = one;
  }
  return first[0].second + 3 * first[1].second;
}

/// Requests with the same numbers find the same replicas long enough, and their models in the same lists.
WaitingRequest::Fit QueueServer::Bounds::fit_of(const WaitingRequest& request) const {
  const auto below = [](const std::set<Tokens>& bounds, Tokens tokens) {
    return static_cast<std::size_t>(std::distance(bounds.begin(), bounds.lower_bound(tokens)));
  };
  const Ties& ties = request.ties;
  const std::uint64_t tie = ties.home != 0 ? ties.home : ties.pin != 0 ? first_two(ties.pin) : ties.seeks ? 1 : 0;
  const auto found = listed.find(request.model);
  return {below(contexts, request.context), below(longest_prompts, request.sequence),
          found != listed.end() ? found->second : 0, tie};
}

Offered QueueServer::wait(WaitingRequest waiting, PendingGrants& grants) {
  waiting.output_cost = leases_.output_cost(*waiting.facts);
  waiting.fit = bounds_.fit_of(waiting);
  const WaitTicket ticket = pool_.waiting.push(std::move(waiting));
  // Nothing fails from here on: the request waits, and its caller is to know.
  grants.keep(ticket);
  serve(grants);
  if (const WaitingRequest* const request = pool_.waiting.find(ticket); request && comes_too_late(*request)) {
    const bool expired = request->deadline <= pool_.latest;
    const auto left = pool_.waiting.leave(ticket);
    return refuse(pool_, expired ? Refused::Reason::expired : Refused::Reason::too_late, *left);
  }
  bound(grants);
  auto decided = grants.take_kept();
  if (!decided) return Waiting{ticket, pool_.waiting.find(ticket)->deadline};
  if (auto* const lease = std::get_if<Lease>(&*decided)) return Admitted{std::move(*lease)};
  return std::get<Refused>(*decided);
}

/// By the rate of the last seconds, the newest request has its turn after its deadline. The rate says nothing while no
/// replica is up, and nothing of one that goes before all turns.
bool QueueServer::comes_too_late(const WaitingRequest& request) const {
  if (request.deadline <= pool_.latest) return true;
  if (request.front_of_queue) return false;
  const auto rate = pool_.drain_rate();
  if (!rate || pool_.replicas.none_up()) return false;
  const double tokens_in_time = *rate * metrics::seconds(request.deadline - pool_.latest);
  if (static_cast<double>(pool_.waiting.tokens()) <= tokens_in_time) return false;
  return static_cast<double>(pool_.waiting.ahead_of(request.key)) > tokens_in_time;
}

void QueueServer::bound(PendingGrants& grants) noexcept {
  WaitingQueue& waiting = pool_.waiting;
  while (waiting.size() > pool_.limits.queue || waiting.bytes() > pool_.limits.queue_bytes) {
    if (!if_memory_allows([&] { grants.make_room(); })) return;
    const bool requests = waiting.size() > pool_.limits.queue;
    auto [ticket, request] = waiting.push_out(requests ? WaitingQueue::Bound::requests : WaitingQueue::Bound::bytes);
    const auto reason = requests ? Refused::Reason::queue_full : Refused::Reason::queue_bytes_full;
    const Refused refused = refuse(pool_, reason, request);
    grants.add(ticket, std::move(request.waiter), refused);
  }
  bool any_dropped = false;
  if_memory_allows([&] { any_dropped = reservations_.drop(); });
  if (any_dropped) serve(grants);
}

void QueueServer::serve(PendingGrants& grants) noexcept {
  if_memory_allows([&] {
    if (pool_.waiting.empty()) {
      reservations_.drop();
      return;
    }
    const auto look_again = [this] {
      candidates_.look(true);
      reservations_.drop();
    };
    for (look_again(); !pool_.waiting.empty() && candidates_.any_may_take(pool_.waiting.shortest()); look_again()) {
      grants.make_room();
      if (!serve_reserved(grants) && !serve_next(grants)) break;
    }
    reservations_.reserve();
  });
}

/// Grants the request whose turn it is. A lease is taken first: without memory for that the request waits, and keeps
/// its turn.
bool QueueServer::serve_next(PendingGrants& grants) {
  const auto next = pool_.waiting.next(
      [&](const WaitingRequest& request) { return takes(candidates_.find(request, 0, true)); }, pool_.latest);
  if (!next) return false;
  const WaitTicket ticket = next->ticket;
  const Narrowed narrowed = candidates_.find(next->request, ticket, true);
  Lease lease = leases_.take(next->request, narrowed, candidates_.found());
  grants.add(ticket, pool_.waiting.take_in_turn(ticket, pool_.latest).waiter, std::move(lease));
  return true;
}

/// Grants the first request that fits where a replica, or the whole pool, is reserved for it.
bool QueueServer::serve_reserved(PendingGrants& grants) {
  if (serve_reserved(pool_.reserved_for, grants)) return true;
  for (const ReplicaView& view : candidates_.views())
    if (serve_reserved(pool_.replicas[view.index].reserved_for, grants)) return true;
  return false;
}

bool QueueServer::serve_reserved(const std::optional<WaitTicket>& reserved_for, PendingGrants& grants) {
  if (!reserved_for) return false;
  const WaitTicket ticket = *reserved_for;
  const WaitingRequest& request = *pool_.waiting.find(ticket);
  const Narrowed narrowed = candidates_.find(request, ticket, true);
  if (!takes(narrowed)) return false;
  Lease lease = leases_.take(request, narrowed, candidates_.found());
  grants.add(ticket, pool_.waiting.take(ticket).waiter, std::move(lease));
  return true;
}

}  // namespace weir::balancer
