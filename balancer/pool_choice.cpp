// A pool's choice and its queue: which replica takes a request, at what price; who waits.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <utility>
#include <variant>

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

// The queue of a pool: requests wait, are granted what has become free in the order of their turns, and are refused
// where their turn would come too late or the queue is full. Replicas are kept free for requests that have had their
// turn and fitted nowhere while others went.

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

/// The newest request has its turn after its deadline, by the rate of the last seconds. The rate says nothing while no
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
