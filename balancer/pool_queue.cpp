// Who may take a request now, and the requests that wait for that.
#include <algorithm>
#include <cmath>

#include "balancer/pool.hpp"

namespace weir::balancer {

namespace {

/// The queue gives so many turns for a request's output at most, whatever a client asks for.
constexpr Tokens most_output_cost = 16 * WaitingQueue::quantum;

/// Estimates of texts that a tokenizer packs well were seen to be 58 % above the truth. So a prompt is refused by
/// max_context only where its estimate is more than 1.6 times that.
Tokens longest_prompt(Tokens max_context) { return max_context + max_context / 5 * 3 + max_context % 5 * 3 / 5; }

std::optional<Tokens> longest_prompt(const ReplicaSpec& spec) {
  if (!spec.max_context_refuses || !spec.max_context) return std::nullopt;
  return longest_prompt(*spec.max_context);
}

}  // namespace

void Pool::set_limits(const PoolLimits& limits, Moment now) {
  PendingGrants grants(sink_);
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
    const auto refused = refusal(Refused::Reason::expired, identity_of(*request));
    // A client that went before its deadline does not come back.
    if (latest_now < request->deadline) returns_.came_back(identity_of(*request), latest_now);
    return refused;
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

/// Notes at which lengths the replicas that may take a request become other ones, and has the queue tell its requests
/// apart by that.
void Pool::note_contexts() {
  contexts_.clear();
  longest_prompts_.clear();
  for (const auto& replica : replicas_) {
    if (!replica || replica->removed) continue;
    if (const auto context = context_of(*replica)) {
      contexts_.insert(*context);
      longest_prompts_.insert(*context);
    }
    if (const auto longest = longest_prompt(replica->spec)) longest_prompts_.insert(*longest);
  }
  waiting_.regroup([this](const WaitingRequest& request) { return fit_of(request); });
}

/// Requests with the same numbers find the same replicas long enough.
WaitingRequest::Fit Pool::fit_of(const WaitingRequest& request) const {
  const auto below = [](const std::set<Tokens>& bounds, Tokens tokens) {
    return static_cast<std::size_t>(std::distance(bounds.begin(), bounds.lower_bound(tokens)));
  };
  return {below(contexts_, request.context), below(longest_prompts_, request.sequence)};
}

/// Brings the views of all named replicas up to date. With `for_queue` a replica on which a lease has just failed looks
/// full.
void Pool::look(bool for_queue) {
  views_.clear();
  queued_ = 0;
  pool_in_flight_ = 0;
  for (ReplicaIndex i = 0; i < replicas_.size(); ++i) {
    if (!replicas_[i] || replicas_[i]->removed) continue;
    Replica& replica = *replicas_[i];
    replica.ledger.advance(latest_);
    replica.health.advance(latest_);
    views_.push_back(view_of(replica, i));
    if (for_queue && replica.rests_for_all && latest_ < replica.rests_until) views_.back().full = true;
    queued_ += replica.ledger.prefill_left();
    pool_in_flight_ += replica.ledger.in_flight();
  }
}

std::optional<Tokens> Pool::context_of(const Replica& replica) {
  return replica.spec.max_context ? replica.spec.max_context : replica.told.max_context;
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
  view.suspected = replica.suspicion.is_grave();
  view.draining = replica.spec.draining;
  view.full = replica.health.is_full(latest_);
  view.starting = replica.health.state() == ReplicaState::starting;
  if (view.starting) view.allowance = allowance_of(replica);
  view.kv_tokens = replica.spec.kv_tokens ? replica.spec.kv_tokens : replica.told.kv_tokens;
  view.max_context = context_of(replica);
  view.longest_prompt = longest_prompt(replica.spec);
  view.max_in_flight = replica.spec.max_in_flight;
  view.max_queued_tokens = replica.spec.max_queued_tokens;
  return view;
}

bool Pool::pool_has_room(Tokens prompt) const {
  if (limits_.max_in_flight && pool_in_flight_ >= *limits_.max_in_flight) return false;
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
  const Narrowed narrowed = narrow(candidates_, {request.prompt, request.context, request.sequence, can_wait});
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
  narrow(candidates_, {request.prompt, request.context, request.sequence, true});
  return !candidates_.empty();
}

/// Puts the request into the queue and serves that. The request may have been granted then, or be refused.
Offered Pool::wait(WaitingRequest waiting, PendingGrants& grants) {
  const double output = decode_weight_ * static_cast<double>(expected_output_.of(*waiting.facts));
  waiting.output_cost = static_cast<Tokens>(std::min(output, static_cast<double>(most_output_cost)));
  waiting.fit = fit_of(waiting);
  const WaitTicket ticket = waiting_.push(std::move(waiting));
  grants.keep(ticket);
  serve_queue(grants);
  if (const WaitingRequest* const request = waiting_.find(ticket); request && comes_too_late(*request)) {
    const bool expired = request->deadline <= latest_;
    const auto left = waiting_.leave(ticket);
    return refusal(expired ? Refused::Reason::expired : Refused::Reason::too_late, identity_of(*left));
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
  if (request.front_of_queue) return false;
  const auto rate = finished_.drain_rate(latest_);
  if (!rate || none_up()) return false;
  const double tokens_in_time = *rate * metrics::seconds(request.deadline - latest_);
  if (static_cast<double>(waiting_.tokens()) <= tokens_in_time) return false;
  return static_cast<double>(waiting_.ahead_of_newest(request.key, request.front_of_queue)) > tokens_in_time;
}

void Pool::bound_queue(PendingGrants& grants) {
  while (waiting_.size() > limits_.queue || waiting_.bytes() > limits_.queue_bytes) {
    const bool requests = waiting_.size() > limits_.queue;
    auto [ticket, request] = waiting_.push_out(requests ? WaitingQueue::Bound::requests : WaitingQueue::Bound::bytes);
    const auto reason = requests ? Refused::Reason::queue_full : Refused::Reason::queue_bytes_full;
    grants.add(ticket, std::move(request.waiter), refusal(reason, identity_of(request)));
  }
  if (drop_reservations()) serve_queue(grants);
}

/// Grants as much as there is room for.
void Pool::serve_queue(PendingGrants& grants) {
  const auto look_again = [this] {
    look(true);
    drop_reservations();
  };
  if (waiting_.empty()) {
    drop_reservations();
    return;
  }
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
bool Pool::serve_reserved(PendingGrants& grants) {
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

/// A reservation ends when its request waits no more, or would not get the replica. Returns true if any ended.
bool Pool::drop_reservations() {
  bool any = false;
  const auto ends = [&](const std::optional<WaitTicket>& ticket, auto is_it) {
    if (!ticket) return false;
    const WaitingRequest* const request = waiting_.find(*ticket);
    return request == nullptr || !find_reservable(*request, *ticket) || std::ranges::none_of(candidates_, is_it);
  };
  const auto end = [&any](std::optional<WaitTicket>& ticket) {
    ticket.reset();
    any = true;
  };
  if (ends(reserved_for_, [](const ReplicaView&) { return true; })) end(reserved_for_);
  for (ReplicaIndex i = 0; i < replicas_.size(); ++i) {
    if (!replicas_[i]) continue;
    auto& reserved_for = replicas_[i]->reserved_for;
    if (ends(reserved_for, [i](const ReplicaView& view) { return view.index == i; })) end(reserved_for);
  }
  return any;
}

/// Reserves a replica for each request that has been passed over too long: the one that has the least to do. At most
/// half of those that take requests are reserved, so that the others go on; a lone one is, too.
void Pool::reserve() {
  const auto is_reserved = [this](const ReplicaView& view) { return replicas_[view.index]->reserved_for.has_value(); };
  const auto takes_none = [](const ReplicaView& view) { return view.draining || view.refuses; };
  const auto open = views_.size() - static_cast<std::size_t>(std::ranges::count_if(views_, takes_none));
  const std::size_t most = std::max<std::size_t>(1, open / 2);
  auto reserved = static_cast<std::size_t>(std::ranges::count_if(views_, is_reserved));
  for (const auto& [ticket, since] : waiting_.passed()) {
    if (latest_ - since < reserve_after || reserved >= most) return;
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

/// Returns the prompt tokens that the pool can finish per second, as it was seen to while it had more to do than it
/// could, or by what its replicas have taught. Nothing while neither is known: what was finished is the demand then.
std::optional<double> Pool::capacity() const {
  if (const auto drained = finished_.drain_rate(latest_)) return drained;
  double known = 0;
  std::size_t those_known = 0, those_in = 0;
  for (const auto& replica : replicas_) {
    if (!replica || replica->removed || replica->spec.draining || replica->health.out()) continue;
    ++those_in;
    const auto rate = replica->rates.prefill();
    if (!rate) continue;
    known += *rate;
    ++those_known;
  }
  if (those_known == 0) return std::nullopt;
  const double learned = known * static_cast<double>(those_in) / static_cast<double>(those_known);
  return std::max(learned, finished_.best_second(latest_));
}

/// Returns how many requests the pool may have at a time; nothing if no limit says so.
std::optional<std::uint64_t> Pool::places() const {
  std::optional<std::uint64_t> sum = 0;
  for (const auto& replica : replicas_) {
    if (!replica || replica->removed || replica->spec.draining || replica->health.out()) continue;
    if (sum && replica->spec.max_in_flight)
      *sum += *replica->spec.max_in_flight;
    else
      sum.reset();
  }
  if (!limits_.max_in_flight) return sum;
  return std::min<std::uint64_t>(*limits_.max_in_flight, sum.value_or(*limits_.max_in_flight));
}

/// A refused request may come back when what is before it is done: the prompts in the replicas, those that wait, those
/// that were refused and come back before it, and its own. Of the other keys no more counts than fair turns give them
/// meanwhile, so that no client that sends too much, or comes back too soon, keeps others away. Where places are what is
/// short, the requests are as many ends away. What the replicas have not taught yet is assumed, on the slow side: a
/// client that comes back too early is refused once more, and gives up.
double Pool::seconds_until_done(const Returns::Identity& who) const {
  constexpr double least_assumed = 5, assumed_prefill_rate = 4000, assumed_to_last = 2;
  constexpr Work turn{WaitingQueue::quantum / WaitingQueue::least_cost, WaitingQueue::quantum};
  Work before{1, who.prompt};
  before.add(returns_.of(who.key));
  before.add(waiting_.of(who.key));
  Work fair = before;
  fair.add(turn);
  before.add(returns_.of_others(who.key, fair));
  before.add(waiting_.of_others(who.key, fair));
  double tokens = static_cast<double>(before.tokens), assumed_rate = 0;
  for (const auto& replica : replicas_) {
    if (!replica || replica->removed) continue;
    tokens += static_cast<double>(replica->ledger.prefill_left());
    if (!replica->spec.draining && !replica->health.out()) assumed_rate += assumed_prefill_rate;
  }
  double seconds = least_assumed;
  if (const auto rate = capacity()) {
    seconds = tokens / *rate;
  } else {
    if (assumed_rate > 0) seconds = std::max(seconds, tokens / assumed_rate);
    if (const double best = finished_.best_second(latest_); best > 0) seconds = std::min(seconds, tokens / best);
  }

  const auto limit = places();
  if (!limit || *limit == 0) return seconds;
  const double free = std::max(0.0, static_cast<double>(*limit) - static_cast<double>(in_flight_));
  const double ends = std::max(0.0, static_cast<double>(before.requests) - free);
  return std::max(seconds, ends * (ends_ > 0 ? lasted_ : assumed_to_last) / static_cast<double>(*limit));
}

/// A client's Retry-After is spread by up to a half more (proxy/exchange/failure_answers), so that it comes back a
/// quarter later in the mean. Clients are told 0.85 of the time: then returns are about as many as the pool serves. With
/// the spread it is at most 60 s: clients of OpenAI's and Anthropic's libraries follow no longer one.
Refused Pool::refusal(Refused::Reason reason, const Returns::Identity& who) {
  constexpr double longest = 40, of_the_time = 0.85, mean_spread = 1.25, most_spread = 1.5, on_its_way = 2;
  returns_.pass(latest_);
  const double told = std::clamp(std::ceil(of_the_time * seconds_until_done(who)), 1.0, longest);
  const auto in = [this](double seconds) {
    return latest_ + std::chrono::duration_cast<Moment::duration>(std::chrono::duration<double>(seconds));
  };
  returns_.told(who, {in(told), in(told * mean_spread), in(told * most_spread + on_its_way)});
  return {reason, static_cast<unsigned>(told)};
}

Returns::Identity Pool::identity_of(const WaitingRequest& request) {
  return {request.key, request.facts->conversation, request.prompt, request.bytes};
}

}  // namespace weir::balancer
