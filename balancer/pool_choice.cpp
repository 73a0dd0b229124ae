// The choice of a pool's replica: which may take a request, at what price, and what it is expected to cost.
#include <algorithm>
#include <tuple>

#include "balancer/affinity.hpp"
#include "balancer/pool_state.hpp"

namespace weir::balancer {

void PoolState::look(bool for_queue) {
  seen_.views.clear();
  seen_.queued = 0;
  seen_.in_flight = 0;
  seen_.for_queue = for_queue;
  for (PoolReplica& replica : replicas.named()) {
    replica.ledger.advance(latest);
    replica.health.advance(latest);
    seen_.queued += replica.ledger.gauges().prefill_left;
    seen_.in_flight += replica.ledger.gauges().in_flight;
    if (replica.closed) continue;
    seen_.views.push_back(replica.view(latest));
  }
}

/// Looks what the replicas hold of a request's prompt. Returns false if nothing is known of it.
bool PoolState::look_up(const WaitingRequest& request) {
  if (!counts_cached() || !request.prefix) return false;
  prefixes.look(*request.prefix, request.prompt);
  return true;
}

/// Returns the share of their time that the replicas that are in spend on prompts, 0 to 0.95.
double PoolState::prompt_load() const {
  double in = 0;
  for (const PoolReplica& replica : replicas.named()) in += replica.is_in() ? 1 : 0;
  return in > 0 ? std::min(prompt_seconds_.at(latest) / FadingSum::memory / in, 0.95) : 0;
}

/// Prices what each of those found would compute although another one holds it.
void PoolState::price_waste() {
  if (!counts_cached()) return;
  const ReplicaView& best = *std::ranges::max_element(found_, {}, &ReplicaView::cached);
  if (best.cached == 0) return;
  for (ReplicaView& view : found_) view.waste = prefixes.waste(best.index, view.index, best.cached, view.cached);
}

/// Prices what each of those found needs to have the request's model ready.
void PoolState::price_switch(const WaitingRequest& request) {
  if (kind_ != config::Policy::least_queued_tokens || request.model == 0 || !switches_.any()) return;
  double under_way = 0;
  if (!switches_.known())
    for (const PoolReplica& replica : replicas.named())
      if (replica.recent_models.loading() > 0) under_way = std::max(under_way, replica.ledger.gauges().worked_seconds);
  const SwitchPrices::Loads loads = switches_.loads(under_way, latest);
  for (ReplicaView& view : found_) {
    const RecentModels& models = replicas[view.index].recent_models;
    const std::size_t distance = models.distance(request.model);
    view.loading_seconds = models.loading() * loads[RecentModels::never];
    view.load_seconds = loads[distance];
    view.load_share = loads[RecentModels::never] > 0 ? loads[distance] / loads[RecentModels::never] : 0;
    view.eviction_seconds = switches_.eviction(loads, models, request.model, latest);
  }
}

/// Notes which replicas lack the request's model, if another one has it by its list. A replica that lately refused such
/// a request as engines refuse an unknown model, with 404, is no such other: its list is old.
///
/// A request that was refused goes to a replica that answers such requests, else rather to one that has not
/// refused them, whatever the lists say.
void PoolState::note_lacking(const WaitingRequest& request) {
  const bool by_list = lists_differ_ && request.model != 0;
  if (!by_list && request.tried.empty()) return;
  const auto replica_of = [&](const ReplicaView& view) -> const PoolReplica& { return replicas[view.index]; };
  const auto past_of = [&](const ReplicaView& view, std::uint16_t status) {
    Caller refused = request.caller;
    refused.status = status;
    return replica_of(view).evidence.past_of(refused, latest);
  };
  const auto lists = [&](const ReplicaView& view) {
    const Evidence::Past past = past_of(view, 404);
    return replica_of(view).models.has(request.model) && !past.refuses && !past.was_outdone;
  };
  if (by_list && std::ranges::any_of(found_, lists))
    for (ReplicaView& view : found_) view.lacks_model = replica_of(view).models.lacks(request.model);

  const auto has_refused = [&](const ReplicaView& view) { return view.tried && past_of(view, any_status).refuses; };
  if (std::ranges::none_of(found_, has_refused)) return;
  const auto answers = [&](const ReplicaView& view) { return !view.tried && past_of(view, any_status).answers; };
  const bool any_answers = std::ranges::any_of(found_, answers);
  for (ReplicaView& view : found_) {
    if (any_answers) view.lacks_model = !answers(view);
    view.avoided = view.avoided || past_of(view, any_status).refuses;
  }
}

/// Puts the replicas of the latest look into found_, as they are for this request.
void PoolState::gather_for(const WaitingRequest& request, WaitTicket ticket) {
  found_ = seen_.views;
  const bool by_side = split.is_on();
  const bool to_candidate = by_side && split.gives_candidate(*request.facts, request.lot);
  const bool prefix = look_up(request);
  for (ReplicaView& view : found_) {
    const PoolReplica& replica = replicas[view.index];
    if (prefix) view.cached = prefixes.cached(view.index, request.prompt);
    view.tried = std::ranges::binary_search(request.tried, replica.key.serial);
    const Evidence::Advice advice = replica.evidence.advise(request.caller, latest);
    view.full |= advice.full || (view.tried && advice.rests) || (seen_.for_queue && advice.rests_for_queue);
    view.avoided = advice.avoid;
    view.reserved = replica.reserved_for && replica.reserved_for != ticket;
    view.other_side = by_side && replica.spec.candidate != to_candidate;
  }
  note_lacking(request);
  note_ties(request);
}

/// Marks the home of the request, and ranks the replicas for its session. State by a name that a client made up has its
/// home where the name ranks first among the replicas that can answer the request, on its own side of a split if
/// possible.
void PoolState::note_ties(const WaitingRequest& request) {
  const Ties& ties = request.ties;
  if (ties.seeks) std::erase_if(found_, [](const ReplicaView& view) { return view.tried; });
  const auto rank_of = [this](std::uint64_t name, const ReplicaView& view) {
    return rendezvous(name, replicas[view.index].identity, view.weight);
  };
  if (ties.home != 0) {
    for (ReplicaView& view : found_) view.is_home = replicas[view.index].identity == ties.home;
  } else if (ties.pin != 0) {
    const auto order = [&](const ReplicaView& view) {
      const bool is_long_enough = (!view.longest_prompt || request.sequence <= *view.longest_prompt) &&
                                  (!view.max_context || request.context <= *view.max_context);
      const bool can = is_there(view) && !view.asleep && !view.lacks_model;
      return std::tuple(can, is_long_enough, is_there(view), !view.other_side, rank_of(ties.pin, view));
    };
    if (const auto first = std::ranges::max_element(found_, {}, order); first != found_.end()) first->is_home = true;
  }
  if (ties.session == 0) return;
  for (ReplicaView& view : found_) view.rank = rank_of(ties.session, view);
}

Narrowed PoolState::narrow_found(const WaitingRequest& request, bool can_wait) {
  const Demand demand{request.prompt, request.context, request.sequence, can_wait};
  return split.is_on() ? narrow_by_side(found_, demand) : narrow(found_, demand);
}

Narrowed PoolState::find(const WaitingRequest& request, WaitTicket ticket, bool can_wait) {
  gather_for(request, ticket);
  // A prompt's cached tokens let it in at the replica that holds them, and at no other.
  for (ReplicaView& view : found_) view.reserved = view.reserved || !pool_has_room(view.uncached(request.prompt));
  const Narrowed narrowed = narrow_found(request, can_wait);
  if (!takes(narrowed)) return narrowed;
  if (reserved_for_ && *reserved_for_ != ticket) return {Eligibility::busy};
  price_waste();
  price_switch(request);
  return narrowed;
}

bool PoolState::find_reservable(const WaitingRequest& request, WaitTicket ticket) {
  gather_for(request, ticket);
  for (ReplicaView& view : found_)
    if (!view.out) view.in_flight = 0, view.prefill_left = 0;
  narrow_found(request, true);
  return !found_.empty();
}

bool PoolState::pool_has_room(Tokens prompt) const {
  if (limits.max_in_flight && seen_.in_flight >= *limits.max_in_flight) return false;
  return !limits.max_queued_tokens || seen_.queued == 0 || seen_.queued + prompt <= *limits.max_queued_tokens;
}

bool PoolState::any_may_take(Tokens prompt) const {
  return pool_has_room(prompt) && std::ranges::any_of(seen_.views, [&](const ReplicaView& view) {
           return !view.draining && !view.refuses && !view.full && !view.at_limit(prompt) && view.may_hold(prompt);
         });
}

}  // namespace weir::balancer
