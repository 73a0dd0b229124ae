// Who may take a request now, and the requests that wait for that.
#include <algorithm>

#include "balancer/pool.hpp"

namespace weir::balancer {

namespace {

/// The queue gives so many turns for a request's output at most, whatever a client asks for.
constexpr Tokens most_output_cost = 16 * WaitingQueue::quantum;

}  // namespace

void Pool::set_limits(const PoolLimits& limits, Moment now) {
  Grants grants(sink_);
  const std::lock_guard lock(mutex_);
  latest(now);
  limits_ = limits;
  serve_queue(grants);
  bound_queue(grants);
}

std::optional<Refused> Pool::leave(WaitTicket ticket, Moment now) {
  return free_room(now, [&](Moment latest_now) -> std::optional<Refused> {
    const auto request = waiting_.leave(ticket);
    if (!request) return std::nullopt;
    // A client that went before its deadline does not come back.
    return refusal(Refused::Reason::expired, latest_now < request->deadline ? 0 : request->prompt);
  });
}

bool Pool::another_is_left(std::span<const Serial> tried, Serial beside) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(replicas_, [&](const auto& replica) {
    return replica && !replica->removed && !replica->spec.draining && !replica->health.refuses() &&
           replica->serial != beside && std::ranges::find(tried, replica->serial) == tried.end();
  });
}

QueueFigures Pool::queue(Moment now) {
  const std::lock_guard lock(mutex_);
  const auto oldest = waiting_.oldest();
  return {waiting_.size(), waiting_.tokens(), waiting_.bytes(), oldest ? metrics::seconds(latest(now) - *oldest) : 0};
}

/// Brings the views of all named replicas up to date. With `for_queue` a replica on which a lease has just failed looks
/// full.
void Pool::look(bool for_queue) {
  views_.clear();
  queued_ = 0;
  held_ = 0;
  for (ReplicaIndex i = 0; i < replicas_.size(); ++i) {
    if (!replicas_[i] || replicas_[i]->removed) continue;
    Replica& replica = *replicas_[i];
    replica.ledger.advance(latest_);
    replica.health.advance(latest_);
    views_.push_back(view_of(replica, i));
    if (for_queue && latest_ < replica.rests_until) views_.back().full = true;
    queued_ += replica.ledger.prefill_left();
    held_ += replica.ledger.in_flight();
  }
}

std::optional<Tokens> Pool::queued_limit(const Replica& replica) const {
  if (replica.spec.max_queued_tokens || !limits_.queued_time) return replica.spec.max_queued_tokens;
  const auto rate = replica.rates.prefill();
  if (!rate) return std::nullopt;
  return std::max(least_queued_tokens, static_cast<Tokens>(*rate * limits_.queued_time->count()));
}

ReplicaView Pool::view_of(const Replica& replica, ReplicaIndex index) const {
  ReplicaView view;
  view.index = index;
  view.weight = replica.spec.weight;
  view.speed = replica.speed;
  view.prefill_left = replica.ledger.prefill_left();
  view.decode_left = replica.ledger.decode_left();
  view.resident = replica.ledger.resident();
  view.in_flight = replica.ledger.in_flight();
  view.recent_failures = replica.ledger.recent_failures();
  view.refuses = replica.health.refuses();
  view.out = replica.health.out();
  view.draining = replica.spec.draining;
  view.full = replica.health.is_full(latest_);
  view.starting = replica.health.state() == ReplicaState::starting;
  if (view.starting) view.allowance = allowance_of(replica);
  view.kv_tokens = replica.spec.kv_tokens ? replica.spec.kv_tokens : replica.told.kv_tokens;
  view.max_context = replica.spec.max_context;
  if (!view.max_context) view.told_context = replica.told.max_context;
  view.max_in_flight = replica.spec.max_in_flight;
  view.max_queued_tokens = queued_limit(replica);
  return view;
}

bool Pool::pool_has_room(Tokens prompt) const {
  if (limits_.max_in_flight && held_ >= *limits_.max_in_flight) return false;
  return !limits_.max_queued_tokens || queued_ == 0 || queued_ + prompt <= *limits_.max_queued_tokens;
}

/// Puts the replicas of the latest look into candidates_, as they are for this request. `ticket` is 0 for one that does
/// not wait.
void Pool::gather_for(const WaitingRequest& request, WaitTicket ticket) {
  candidates_ = views_;
  for (ReplicaView& view : candidates_) {
    const Replica& replica = *replicas_[view.index];
    view.tried = std::ranges::binary_search(request.tried, replica.serial);
    if (view.tried && latest_ < replica.rests_until) view.full = true;
    view.reserved = replica.reserved_for && replica.reserved_for != ticket;
  }
}

/// Leaves those replicas in candidates_ that may take the request.
Narrowed Pool::narrow_for(const WaitingRequest& request, WaitTicket ticket, bool can_wait) {
  gather_for(request, ticket);
  const Narrowed narrowed = narrow(candidates_, {request.prompt, request.context, can_wait});
  if (narrowed.eligibility != Eligibility::some && narrowed.eligibility != Eligibility::kv_full) return narrowed;
  const bool reserved_for_another = reserved_for_ && *reserved_for_ != ticket;
  if (reserved_for_another || !pool_has_room(request.prompt)) return {Eligibility::busy};
  return narrowed;
}

/// Leaves those replicas in candidates_ that may be reserved for the request: those that it would get if all that are
/// in had nothing to do. Another one would stand idle. Returns false if there is none.
bool Pool::find_reservable(const WaitingRequest& request, WaitTicket ticket) {
  gather_for(request, ticket);
  for (ReplicaView& view : candidates_)
    if (!view.out) view.in_flight = 0, view.prefill_left = 0;
  narrow(candidates_, {request.prompt, request.context, true});
  return !candidates_.empty();
}

/// Puts the request into the queue and serves that. The request may have been granted then, or be refused.
Offered Pool::wait(WaitingRequest waiting, Grants& grants) {
  const double output = decode_weight_ * static_cast<double>(expected_output_.of(*waiting.facts));
  waiting.output_cost = static_cast<Tokens>(std::min(output, static_cast<double>(most_output_cost)));
  const WaitTicket ticket = waiting_.push(std::move(waiting));
  grants.keep(ticket);
  serve_queue(grants);
  if (const WaitingRequest* const request = waiting_.find(ticket); request && comes_too_late(*request)) {
    const bool expired = request->deadline <= latest_;
    const Tokens prompt = waiting_.leave(ticket)->prompt;
    return refusal(expired ? Refused::Reason::expired : Refused::Reason::too_late, prompt);
  }
  bound_queue(grants);
  auto decided = grants.take_kept();
  if (!decided) return Waiting{ticket, waiting_.find(ticket)->deadline};
  if (auto* const lease = std::get_if<Lease>(&*decided)) return Admitted{std::move(*lease)};
  return std::get<Refused>(*decided);
}

/// By the rate of the last seconds, the newest request has its turn after its deadline. The rate says nothing while no
/// replica is up, and nothing of one that goes before all turns.
bool Pool::comes_too_late(const WaitingRequest& request) const {
  if (request.deadline <= latest_) return true;
  if (request.at_the_head) return false;
  const auto rate = finished_.drain_rate(latest_);
  if (!rate || none_up()) return false;
  const double tokens_in_time = *rate * metrics::seconds(request.deadline - latest_);
  if (static_cast<double>(waiting_.tokens()) <= tokens_in_time) return false;
  return static_cast<double>(waiting_.ahead_of_newest(request.key, request.at_the_head)) > tokens_in_time;
}

void Pool::bound_queue(Grants& grants) {
  while (waiting_.size() > limits_.queue || waiting_.bytes() > limits_.queue_bytes) {
    const bool requests = waiting_.size() > limits_.queue;
    auto [ticket, request] = waiting_.push_out(requests ? WaitingQueue::Bound::requests : WaitingQueue::Bound::bytes);
    const auto reason = requests ? Refused::Reason::queue_full : Refused::Reason::queue_bytes_full;
    grants.add(ticket, std::move(request.waiter), refusal(reason, request.prompt));
  }
  drop_reservations();
}

/// Grants as much as there is room for.
void Pool::serve_queue(Grants& grants) {
  const auto look_again = [this] {
    look(true);
    drop_reservations();
  };
  if (waiting_.empty()) return drop_reservations();
  for (look_again(); !waiting_.empty() && any_may_take(waiting_.shortest()); look_again()) {
    if (serve_reserved(grants)) continue;
    auto next = waiting_.take_next(
        [&](const WaitingRequest& request) {
          const auto found = narrow_for(request, 0, true).eligibility;
          return found == Eligibility::some || found == Eligibility::kv_full;
        },
        latest_);
    if (!next) break;
    auto& [ticket, request] = *next;
    const Narrowed narrowed = narrow_for(request, ticket, true);
    auto waiter = std::move(request.waiter);
    grants.add(ticket, std::move(waiter), admit(std::move(request), narrowed));
  }
  reserve();
}

/// True if the shortest prompt that waits may find room somewhere; a quick look that is wrong only to that side.
bool Pool::any_may_take(Tokens prompt) const {
  return pool_has_room(prompt) && std::ranges::any_of(views_, [&](const ReplicaView& view) {
           return !view.draining && !view.refuses && !view.full && !view.at_limit(prompt) && view.may_hold(prompt);
         });
}

/// Grants the first request that fits where a replica, or the whole pool, is reserved for it.
bool Pool::serve_reserved(Grants& grants) {
  const auto serve = [&](const std::optional<WaitTicket>& reserved_for) {
    if (!reserved_for) return false;
    const WaitTicket ticket = *reserved_for;
    const Narrowed narrowed = narrow_for(*waiting_.find(ticket), ticket, true);
    if (narrowed.eligibility != Eligibility::some && narrowed.eligibility != Eligibility::kv_full) return false;
    WaitingRequest request = waiting_.take(ticket);
    auto waiter = std::move(request.waiter);
    grants.add(ticket, std::move(waiter), admit(std::move(request), narrowed));
    return true;
  };
  return serve(reserved_for_) || std::ranges::any_of(views_, [&](const ReplicaView& view) {
           return serve(replicas_[view.index]->reserved_for);
         });
}

/// A reservation ends when its request waits no more, or would not get the replica.
void Pool::drop_reservations() {
  const auto ends = [&](const std::optional<WaitTicket>& ticket, auto is_it) {
    if (!ticket) return false;
    const WaitingRequest* const request = waiting_.find(*ticket);
    return request == nullptr || !find_reservable(*request, *ticket) || std::ranges::none_of(candidates_, is_it);
  };
  if (ends(reserved_for_, [](const ReplicaView&) { return true; })) reserved_for_.reset();
  for (ReplicaIndex i = 0; i < replicas_.size(); ++i) {
    if (!replicas_[i]) continue;
    auto& reserved_for = replicas_[i]->reserved_for;
    if (ends(reserved_for, [i](const ReplicaView& view) { return view.index == i; })) reserved_for.reset();
  }
}

/// Reserves a replica for each request that has been passed over too long: the one that has the least to do. At most
/// half of them are reserved, so that the others go on.
void Pool::reserve() {
  const auto is_reserved = [this](const ReplicaView& view) { return replicas_[view.index]->reserved_for.has_value(); };
  auto reserved = static_cast<std::size_t>(std::ranges::count_if(views_, is_reserved));
  for (const auto& [ticket, since] : waiting_.passed()) {
    if (latest_ - since < reserve_after || 2 * reserved >= std::max<std::size_t>(views_.size(), 2)) return;
    const WaitingRequest& request = *waiting_.find(ticket);
    if (!find_reservable(request, ticket)) continue;
    if (!pool_has_room(request.prompt)) {
      if (!reserved_for_) reserved_for_ = ticket;
      continue;
    }
    const auto is_its_own = [this, own = ticket](const ReplicaView& view) {
      return replicas_[view.index]->reserved_for == own;
    };
    if (std::ranges::any_of(views_, is_its_own)) continue;
    const auto load_of = [this](const ReplicaView& view) {
      return static_cast<double>(replicas_[view.index]->ledger.prefill_left()) / (view.weight * view.speed);
    };
    const ReplicaView& best = *std::ranges::min_element(candidates_, {}, load_of);
    replicas_[best.index]->reserved_for = ticket;
    ++reserved;
  }
}

/// The prompts that are queued anywhere, and that of the refused request, are done before it may come back.
Refused Pool::refusal(Refused::Reason reason, Tokens prompt) {
  Tokens waiting = waiting_.tokens() + prompt;
  for (const auto& replica : replicas_)
    if (replica && !replica->removed) waiting += replica->ledger.prefill_left();
  return {reason, finished_.retry_after(waiting, prompt, latest_)};
}

}  // namespace weir::balancer
