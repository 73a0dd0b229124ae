// The choice of a pool's replica: which may take a request, at what price, and what it is expected to cost.
#include <algorithm>
#include <tuple>

#include "balancer/affinity.hpp"
#include "balancer/pool_core.hpp"

namespace weir::balancer {

void PoolParts::look(bool for_queue) {
  views_.clear();
  queued_ = 0;
  in_flight_ = 0;
  for_queue_ = for_queue;
  for (PoolReplica& replica : state.replicas.named()) {
    replica.ledger.advance(state.latest);
    replica.health.advance(state.latest);
    queued_ += replica.ledger.prefill_left();
    in_flight_ += replica.ledger.in_flight();
    if (replica.closed) continue;
    views_.push_back(replica.view(state.latest));
  }
}

/// Looks what the replicas hold of a request's prompt. Returns false if nothing is known of it.
bool PoolParts::look_up(const WaitingRequest& request) {
  if (!counts_cached() || !request.prefix) return false;
  state.prefixes.look(*request.prefix, request.prompt);
  return true;
}

/// Returns the share of their time that the replicas that are in spend on prompts, 0 to 0.95.
double PoolParts::prompt_load() const {
  double in = 0;
  for (const PoolReplica& replica : state.replicas.named()) in += replica.is_in() ? 1 : 0;
  return in > 0 ? std::min(prompt_seconds_.at(state.latest) / FadingSum::memory / in, 0.95) : 0;
}

/// Prices what each of those found would compute although another one holds it.
void PoolParts::price_waste() {
  if (!counts_cached()) return;
  const ReplicaView& best = *std::ranges::max_element(found_, {}, &ReplicaView::cached);
  if (best.cached == 0) return;
  for (ReplicaView& view : found_) view.waste = state.prefixes.waste(best.index, view.index, best.cached, view.cached);
}

/// Prices what each of those found needs to have the request's model ready.
void PoolParts::price_switch(const WaitingRequest& request) {
  if (kind_ != config::Policy::least_queued_tokens || request.model == 0 || !switches_.any()) return;
  double under_way = 0;
  if (!switches_.known())
    for (const PoolReplica& replica : state.replicas.named())
      if (replica.recent_models.loading() > 0) under_way = std::max(under_way, replica.ledger.worked_seconds());
  const SwitchPrices::Loads loads = switches_.loads(under_way, state.latest);
  for (ReplicaView& view : found_) {
    const RecentModels& models = state.replicas[view.index].recent_models;
    const std::size_t distance = models.distance(request.model);
    view.loading_seconds = models.loading() * loads[RecentModels::never];
    view.load_seconds = loads[distance];
    view.load_share = loads[RecentModels::never] > 0 ? loads[distance] / loads[RecentModels::never] : 0;
    view.eviction_seconds = switches_.eviction(loads, models, request.model, state.latest);
  }
}

/// Notes which replicas lack the request's model, if another one has it by its list. A replica that lately refused such
/// a request as engines refuse an unknown model, with 404, is no such other: its list is old.
///
/// A request that was refused goes to a replica that answers such requests, else rather to one that has not
/// refused them, whatever the lists say.
void PoolParts::note_lacking(const WaitingRequest& request) {
  const bool by_list = state.lists_differ && request.model != 0;
  if (!by_list && request.tried.empty()) return;
  const auto replica_of = [&](const ReplicaView& view) -> const PoolReplica& { return state.replicas[view.index]; };
  const auto refuses = [&](const ReplicaView& view, std::uint16_t status) {
    Caller refused = request.caller;
    refused.status = status;
    return replica_of(view).evidence.refuses(refused, state.latest);
  };
  const auto lists = [&](const ReplicaView& view) {
    return replica_of(view).models.has(request.model) && !refuses(view, 404) &&
           !replica_of(view).evidence.was_outdone(request.caller, state.latest);
  };
  if (by_list && std::ranges::any_of(found_, lists))
    for (ReplicaView& view : found_) view.lacks_model = replica_of(view).models.lacks(request.model);

  const auto has_refused = [&](const ReplicaView& view) { return view.tried && refuses(view, any_status); };
  if (std::ranges::none_of(found_, has_refused)) return;
  const auto answers = [&](const ReplicaView& view) {
    return !view.tried && replica_of(view).evidence.answers(request.caller, state.latest);
  };
  const bool any_answers = std::ranges::any_of(found_, answers);
  for (ReplicaView& view : found_) {
    if (any_answers) view.lacks_model = !answers(view);
    view.avoided = view.avoided || refuses(view, any_status);
  }
}

/// Puts the replicas of the latest look into found_, as they are for this request.
void PoolParts::gather_for(const WaitingRequest& request, WaitTicket ticket) {
  found_ = views_;
  const bool split = state.split.is_on();
  const bool to_candidate = split && state.split.gives_candidate(*request.facts, request.lot);
  const bool prefix = look_up(request);
  for (ReplicaView& view : found_) {
    const PoolReplica& replica = state.replicas[view.index];
    if (prefix) view.cached = state.prefixes.cached(view.index, request.prompt);
    view.tried = std::ranges::binary_search(request.tried, replica.key.serial);
    const Evidence::Advice advice = replica.evidence.advise(request.caller, state.latest);
    view.full |= advice.full || (view.tried && advice.rests) || (for_queue_ && advice.rests_for_queue);
    view.avoided = advice.avoid;
    view.reserved = replica.reserved_for && replica.reserved_for != ticket;
    view.other_side = split && replica.spec.candidate != to_candidate;
  }
  note_lacking(request);
  note_ties(request);
}

/// Marks the home of the request, and ranks the replicas for its session. State by a name that a client made up has its
/// home where the name ranks first among the replicas that can answer the request, on its own side of a split if
/// possible.
void PoolParts::note_ties(const WaitingRequest& request) {
  const Ties& ties = request.ties;
  if (ties.seeks) std::erase_if(found_, [](const ReplicaView& view) { return view.tried; });
  const auto rank_of = [this](std::uint64_t name, const ReplicaView& view) {
    return rendezvous(name, state.replicas[view.index].identity, view.weight);
  };
  if (ties.home != 0) {
    for (ReplicaView& view : found_) view.is_home = state.replicas[view.index].identity == ties.home;
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

Narrowed PoolParts::narrow_found(const WaitingRequest& request, bool can_wait) {
  const Demand demand{request.prompt, request.context, request.sequence, can_wait};
  return state.split.is_on() ? narrow_by_side(found_, demand) : narrow(found_, demand);
}

Narrowed PoolParts::find(const WaitingRequest& request, WaitTicket ticket, bool can_wait) {
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

bool PoolParts::find_reservable(const WaitingRequest& request, WaitTicket ticket) {
  gather_for(request, ticket);
  for (ReplicaView& view : found_)
    if (!view.out) view.in_flight = 0, view.prefill_left = 0;
  narrow_found(request, true);
  return !found_.empty();
}

bool PoolParts::pool_has_room(Tokens prompt) const {
  const PoolLimits& limits = state.limits;
  if (limits.max_in_flight && in_flight_ >= *limits.max_in_flight) return false;
  return !limits.max_queued_tokens || queued_ == 0 || queued_ + prompt <= *limits.max_queued_tokens;
}

bool PoolParts::any_may_take(Tokens prompt) const {
  return pool_has_room(prompt) && std::ranges::any_of(views_, [&](const ReplicaView& view) {
           return !view.draining && !view.refuses && !view.full && !view.at_limit(prompt) && view.may_hold(prompt);
         });
}

}  // namespace weir::balancer
