#include "balancer/reservations.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace weir::balancer {

bool Reservations::drop() {
  bool any = false;
  const auto drop_if_over = [&](std::optional<WaitTicket>& reserved_for, auto is_it) {
    if (!reserved_for) return;
    const WaitingRequest* const request = pool_.waiting.find(*reserved_for);
    if (request != nullptr && candidates_.find_reservable(*request, *reserved_for) &&
        std::ranges::any_of(candidates_.found(), is_it))
      return;
    reserved_for.reset();
    any = true;
  };
  drop_if_over(pool_.reserved_for, [](const ReplicaView&) { return true; });
  for (PoolReplica& replica : pool_.replicas.all())
    drop_if_over(replica.reserved_for, [&](const ReplicaView& view) { return view.index == replica.key.index; });
  return any;
}

void Reservations::reserve() {
  const auto views = candidates_.views();
  const auto replica_of = [this](const ReplicaView& view) -> PoolReplica& { return pool_.replicas[view.index]; };
  const auto is_reserved = [&](const ReplicaView& view) { return replica_of(view).reserved_for.has_value(); };
  const auto takes_none = [](const ReplicaView& view) { return view.draining || view.refuses; };
  const auto open = views.size() - static_cast<std::size_t>(std::ranges::count_if(views, takes_none));
  const std::size_t most = std::max<std::size_t>(1, open / 2);
  auto reserved = static_cast<std::size_t>(std::ranges::count_if(views, is_reserved));
  for (const WaitingQueue::Passed& passed : pool_.waiting.passed()) {
    if (pool_.latest - passed.since < reserve_after || reserved >= most) return;
    const WaitTicket ticket = passed.ticket;
    const WaitingRequest& request = *pool_.waiting.find(ticket);
    if (!candidates_.find_reservable(request, ticket)) continue;
    const auto pool_has_room = [&](const ReplicaView& view) {
      return candidates_.pool_has_room(view.uncached(request.prompt));
    };
    if (std::ranges::none_of(candidates_.found(), pool_has_room)) {
      if (!pool_.reserved_for) pool_.reserved_for = ticket;
      continue;
    }
    const auto is_its_own = [&](const ReplicaView& view) { return replica_of(view).reserved_for == ticket; };
    if (std::ranges::any_of(views, is_its_own)) continue;
    const auto load_of = [&](const ReplicaView& view) {
      const auto queued = static_cast<double>(replica_of(view).ledger.prefill_left());
      return std::pair(!pool_has_room(view), queued * view.time.token / view.weight);
    };
    replica_of(*std::ranges::min_element(candidates_.found(), {}, load_of)).reserved_for = ticket;
    ++reserved;
  }
}

}  // namespace weir::balancer
