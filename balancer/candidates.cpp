#include "balancer/candidates.hpp"

#include <algorithm>

namespace weir::balancer {

void Candidates::look(bool for_queue) {
  views_.clear();
  queued_ = 0;
  in_flight_ = 0;
  for (PoolReplica& replica : pool_.replicas.named()) {
    replica.ledger.advance(pool_.latest);
    replica.health.advance(pool_.latest);
    views_.push_back(replica.view(pool_.latest));
    if (for_queue && replica.rests_for_all && pool_.latest < replica.rests_until) views_.back().full = true;
    queued_ += replica.ledger.prefill_left();
    in_flight_ += replica.ledger.in_flight();
  }
}

/// Puts the replicas of the latest look into found_, as they are for this request.
void Candidates::gather_for(const WaitingRequest& request, WaitTicket ticket) {
  found_ = views_;
  for (ReplicaView& view : found_) {
    const PoolReplica& replica = pool_.replicas[view.index];
    view.tried = std::ranges::binary_search(request.tried, replica.key.serial);
    if (view.tried && pool_.latest < replica.rests_until) view.full = true;
    view.reserved = replica.reserved_for && replica.reserved_for != ticket;
  }
}

Narrowed Candidates::find(const WaitingRequest& request, WaitTicket ticket, bool can_wait) {
  gather_for(request, ticket);
  const Narrowed narrowed = narrow(found_, {request.prompt, request.context, request.sequence, can_wait});
  if (!takes(narrowed)) return narrowed;
  const bool reserved_for_another = pool_.reserved_for && *pool_.reserved_for != ticket;
  if (reserved_for_another || !pool_has_room(request.prompt)) return {Eligibility::busy};
  return narrowed;
}

bool Candidates::find_reservable(const WaitingRequest& request, WaitTicket ticket) {
  gather_for(request, ticket);
  for (ReplicaView& view : found_)
    if (!view.out) view.in_flight = 0, view.prefill_left = 0;
  narrow(found_, {request.prompt, request.context, request.sequence, true});
  return !found_.empty();
}

bool Candidates::pool_has_room(Tokens prompt) const {
  const PoolLimits& limits = pool_.limits;
  if (limits.max_in_flight && in_flight_ >= *limits.max_in_flight) return false;
  return !limits.max_queued_tokens || queued_ == 0 || queued_ + prompt <= *limits.max_queued_tokens;
}

bool Candidates::any_may_take(Tokens prompt) const {
  return pool_has_room(prompt) && std::ranges::any_of(views_, [&](const ReplicaView& view) {
           return !view.draining && !view.refuses && !view.full && !view.at_limit(prompt) && view.may_hold(prompt);
         });
}

}  // namespace weir::balancer
