#include "balancer/pool.hpp"

#include <algorithm>
#include <limits>

namespace weir::balancer {

namespace {

using metrics::wire::RequestFacts;

/// True if token events will come. A stream whose API is not read shows none.
bool shows_tokens(const RequestFacts& facts) { return facts.stream && metrics::generates(facts.api); }

// Returns the prompt that one sequence of the request has for sure. An unknown one may be empty. A list of prompts comes
// as one sum, and its longest prompt has at least an equal share. Each choice repeats its whole prompt.
Tokens prompt_of_sequence(const RequestFacts& facts, const TokenEstimator::Estimate& prompt) {
  return prompt.known ? prompt.tokens / std::max<Tokens>(1, facts.prompts) : 0;
}

Tokens sum_of(Tokens a, Tokens b) {
  return b > std::numeric_limits<Tokens>::max() - a ? std::numeric_limits<Tokens>::max() : a + b;
}

/// The most output that an answer can have, whose engine may hold so much. Whoever sets no limit may get all of that, and
/// of what weir does not read nothing is known.
Tokens longest_output(const RequestFacts& facts, bool prompt_known, std::optional<Tokens> context) {
  if (!prompt_known || facts.stored_context || facts.api == metrics::Api::other) return TokenLedger::unbounded;
  if (!metrics::generates(facts.api)) return facts.max_tokens.value_or(0);
  const Tokens choice = std::min(facts.max_tokens.value_or(TokenLedger::unbounded),
                                 context.value_or(TokenLedger::unbounded));
  const Tokens choices = std::max<Tokens>(1, facts.n);
  return choice > TokenLedger::unbounded / choices ? TokenLedger::unbounded : choice * choices;
}

/// True if the replica may have worked on the prompt in vain. Such a prompt leaves its queue a little later
/// (TokenLedger::failure_memory).
bool leaves_prompt(EndCause cause) { return cause == EndCause::replica_failed; }

}  // namespace

std::shared_ptr<Pool> Pool::make(config::Policy policy, double decode_weight, std::uint64_t seed, GrantSink* sink) {
  return std::shared_ptr<Pool>(new Pool(policy, decode_weight, seed, sink));
}

Pool::Pool(config::Policy policy, double decode_weight, std::uint64_t seed, GrantSink* sink)
    : sink_(sink), policy_(policy::make(policy, decode_weight)), decode_weight_(decode_weight), random_(seed) {}

Moment Pool::latest(Moment now) {
  latest_ = std::max(latest_, now);
  finished_.pass(latest_, !waiting_.empty() && !none_up());  // An outage is no slow queue.
  return latest_;
}

void Pool::set_policy(config::Policy policy, double decode_weight) {
  const std::lock_guard lock(mutex_);
  policy_ = policy::make(policy, decode_weight);
  decode_weight_ = decode_weight;
}

std::vector<ReplicaIndex> Pool::set_replicas(std::span<const ReplicaSpec> specs, Moment now) {
  return free_room(now, [&](Moment latest_now) {
    if (serials_ == 0) first_set_ = specs.size();
    std::vector<bool> stays(replicas_.size());
    std::vector<ReplicaIndex> indices;
    for (const ReplicaSpec& spec : specs) {
      const ReplicaIndex index = index_of(spec, latest_now);
      Replica& replica = *replicas_[index];
      if (spec.draining && !replica.spec.draining) replica.left = latest_now;
      if (!spec.draining && replica.spec.draining) replica.health.drained(latest_now);
      replica.spec = spec;
      replica.health.set(spec.health);
      replica.removed = false;
      indices.push_back(index);
      stays.resize(replicas_.size());
      stays[index] = true;
    }
    for (ReplicaIndex i = 0; i < replicas_.size(); ++i) {
      if (!replicas_[i] || stays[i] || replicas_[i]->removed) continue;
      replicas_[i]->removed = true;
      replicas_[i]->left = latest_now;
    }
    for (ReplicaIndex i = 0; i < replicas_.size(); ++i) drop_if_gone(i);
    note_contexts();
    update_speeds();
    return indices;
  });
}

ReplicaIndex Pool::index_of(const ReplicaSpec& spec, Moment now) {
  const auto is_it = [&spec](const auto& replica) {
    return replica && replica->spec.name == spec.name && replica->spec.url == spec.url;
  };
  auto found = std::ranges::find_if(replicas_, is_it);
  if (found == replicas_.end()) {
    found = std::ranges::find_if(replicas_, [](const auto& replica) { return !replica; });
    if (found == replicas_.end()) found = replicas_.emplace(replicas_.end());
    const bool from_the_start = serials_ < first_set_;
    *found = std::make_unique<Replica>(spec, ++serials_, from_the_start, now);
    (*found)->left = now;  // It may be draining from the start.
  }
  return static_cast<ReplicaIndex>(found - replicas_.begin());
}

/// Frees the place of a replica that is no longer named and that no lease points into.
void Pool::drop_if_gone(ReplicaIndex index) {
  auto& replica = replicas_[index];
  if (replica && replica->removed && replica->ledger.in_flight() == 0) replica.reset();
}

Offered Pool::offer(const PlacementRequest& placement, Moment now) {
  WaitingRequest request;
  request.facts = placement.facts;
  request.waiter = placement.waiter;
  request.key = placement.fair_key;
  request.share = placement.share;
  request.bytes = placement.bytes;
  request.front_of_queue = placement.front_of_queue;

  PendingGrants grants(sink_);
  const std::lock_guard lock(mutex_);
  now = latest(now);
  forget_untested_speeds();
  const TokenEstimator::Estimate prompt = estimator_.estimate(*placement.facts);
  request.prompt = prompt.tokens;
  request.prompt_known = prompt.known;
  request.sequence = prompt_of_sequence(*placement.facts, prompt);
  request.context = sum_of(request.sequence, placement.facts->max_tokens.value_or(0));
  request.tried.assign(placement.tried.begin(), placement.tried.end());
  std::ranges::sort(request.tried);
  request.since = now;
  returns_.pass(now);
  request.returned = returns_.came_back(identity_of(request), now);

  const bool can_wait = sink_ != nullptr && placement.waiter && limits_.queue > 0;
  const bool others_wait = can_wait && !waiting_.empty();
  // One that comes back does not go at once to where a request has just failed.
  look(others_wait || (can_wait && placement.front_of_queue));
  const Narrowed narrowed = narrow_for(request, 0, can_wait);
  switch (narrowed.eligibility) {
    case Eligibility::no_replica:
      if (!can_wait || !limits_.expects_replicas) return refusal(Refused::Reason::no_replica, identity_of(request));
      break;
    case Eligibility::too_long:
      return Refused{Refused::Reason::too_long};
    case Eligibility::busy:
      if (!can_wait) return refusal(Refused::Reason::busy, identity_of(request));
      break;
    case Eligibility::some:
    case Eligibility::kv_full:
      if (!others_wait) return Admitted{admit(std::move(request), narrowed)};
  }
  const auto time = none_up() ? limits_.queue_time_none_up : limits_.queue_time;
  request.deadline = placement.deadline.value_or(now + std::chrono::duration_cast<Moment::duration>(time));
  return wait(std::move(request), grants);
}

/// Chooses among the candidates and takes the lease.
Lease Pool::admit(WaitingRequest request, const Narrowed& narrowed) {
  const ReplicaIndex index = candidates_[policy_->choose(request.prompt, candidates_, random_)].index;
  Replica& replica = *replicas_[index];
  if (narrowed.eligibility == Eligibility::kv_full) ++replica.kv_full;
  if (!request.prompt_known) ++replica.unknown_prompt;
  if (narrowed.panic) ++replica.panic;

  const bool shows = shows_tokens(*request.facts);
  const Tokens output = expected_output_.of(*request.facts);
  const Tokens longest = longest_output(*request.facts, request.prompt_known, context_of(replica));
  replica.ledger.open(++tickets_, {request.prompt, output, shows, longest}, latest_);
  if (shows) replica.rates.prompt_began(tickets_);
  ++in_flight_;

  LedgerEntry entry;
  entry.facts = std::move(request.facts);
  entry.streamed_tokens = &replica.ledger.streamed();
  entry.subject = replica.spec.subject;
  entry.ticket = tickets_;
  entry.key = {index, replica.serial};
  entry.prompt = request.prompt;
  entry.since = latest_;
  entry.output_left = shows ? output : 0;
  entry.doubted = replica.spec.health.eject && is_odd(replica);
  return Lease(std::shared_ptr<LeaseOwner>(shared_from_this(), this), std::move(entry));
}

Tokens Pool::first_token(const LedgerEntry& entry, Moment now) {
  return free_room(now, [&](Moment latest_now) -> Tokens {
    Replica& replica = *replicas_[entry.key.index];
    const std::optional<Tokens> output = replica.ledger.first_token(entry.ticket, latest_now);
    if (!output) return 0;
    finished_.add(entry.prompt, latest_now);
    replica.health.prompt_finished(entry.prompt);
    end_starts();
    if (shows_tokens(*entry.facts)) {
      replica.rates.prompt_finished(entry.ticket, replica.ledger.pending_seconds(), latest_now);
      update_speeds();
    }
    return *output;
  });
}

void Pool::leave_unread(const LedgerEntry& entry, bool unread) {
  const std::lock_guard lock(mutex_);
  replicas_[entry.key.index]->ledger.leave_unread(entry.ticket, unread, latest_);
}

Concurrency Pool::end(LedgerEntry entry, const LeaseEnd& end, Moment now) {
  return free_room(now, [&](Moment latest_now) {
    Replica& replica = *replicas_[entry.key.index];
    const TokenLedger::Closed closed = replica.ledger.close(entry.ticket, !leaves_prompt(end.cause),
                                                            entry.output_left, entry.streamed, latest_now);
    --in_flight_;
    if (end.cause == EndCause::replica_failed) {
      replica.rests_until = latest_now + rest_after_failure;
      replica.rests_for_all =
          replica.health.failures() >= failures_before_rest || !replica.failed_clients.answered_lately(latest_now);
    }
    if (end.cause != EndCause::unsent) {
      ends_ = std::min(ends_ + 1, ends_remembered);
      lasted_ += (metrics::seconds(latest_now - entry.since) - lasted_) / ends_;
    }
    if (end.cause == EndCause::answered) {
      if (entry.facts->gives_work) replica.ledger.lives(latest_now);
      learn(replica, entry, end, closed);
    }
    replica.rates.prompt_ended(entry.ticket, latest_now);
    drop_if_gone(entry.key.index);
    return closed.concurrency;
  });
}

void Pool::learn(Replica& replica, const LedgerEntry& entry, const LeaseEnd& end, const TokenLedger::Closed& closed) {
  const RequestFacts& facts = *entry.facts;
  if (!facts.gives_work) return;
  estimator_.learn(facts, end.prompt_tokens);
  if (end.output_tokens) expected_output_.learn(facts, *end.output_tokens);
  if (!closed.first_token) {
    finished_.add(closed.prompt, latest_);
    replica.health.prompt_finished(closed.prompt);
    end_starts();
    return;
  }
  if (!shows_tokens(facts)) return;
  const Tokens prompt = end.prompt_tokens.value_or(closed.prompt);
  const Tokens cached = std::min(end.cached_tokens.value_or(0), prompt);
  replica.rates.prompt_settled(entry.ticket, prompt, prompt - cached, latest_);
  if (end.output_tokens) {
    replica.rates.answer_finished(*end.output_tokens, metrics::seconds(latest_ - *closed.first_token));
  }
  update_speeds();
}

void Pool::update_speeds() {
  rates_.clear();
  for (const auto& replica : replicas_) {
    if (!replica) continue;
    const std::optional<double> prefill = replica->rates.prefill();
    replica->ledger.set_drain_rates({prefill.value_or(0), replica->rates.decode().value_or(0)});
    if (prefill && !replica->removed) rates_.push_back(*prefill);
  }
  const double median = median_of(rates_);
  for (const auto& replica : replicas_) {
    if (!replica) continue;
    replica->speed = relative_speed(replica->rates.prefill(), median);
    // Its peers were slow because they had its work, too. That is no reason to give it more than them.
    if (replica->health.is_new(latest_)) replica->speed = std::min(replica->speed, 1.0);
  }
}

/// A replica that hung for a while, or whose first answers were slow, looks slow. While the others have time to spare, it
/// gets hardly a request that could prove otherwise. So its speed is forgotten when few have tested it for a minute.
void Pool::forget_untested_speeds() {
  constexpr double seconds = 60;
  bool any = false;
  for (const auto& replica : replicas_) {
    if (!replica || replica->speed >= 1 || replica->ledger.prefill_left() > 0) continue;
    if (metrics::seconds(latest_ - replica->rates.tested_since()) < seconds) continue;
    replica->rates.forget_prefill(replica->ledger.pending_seconds());
    any = true;
  }
  if (any) update_speeds();
}

Pool::Replica* Pool::find(const ReplicaKey& key) const {
  if (key.index >= replicas_.size()) return nullptr;
  Replica* const replica = replicas_[key.index].get();
  return replica != nullptr && replica->serial == key.serial ? replica : nullptr;
}

ReplicaKey Pool::key(ReplicaIndex index) const {
  const std::lock_guard lock(mutex_);
  return {index, replicas_.at(index) ? replicas_[index]->serial : 0};
}

ReplicaLoad Pool::load(const ReplicaKey& key, Moment now) {
  const std::lock_guard lock(mutex_);
  Replica* const found = find(key);
  if (found == nullptr) return {};
  Replica& replica = *found;
  TokenLedger& ledger = replica.ledger;
  ledger.advance(latest(now));
  ReplicaLoad load;
  load.name = replica.spec.name;
  load.prefill_left = ledger.prefill_left();
  load.decode_left = ledger.decode_left();
  load.resident = ledger.resident();
  load.in_flight = ledger.in_flight();
  load.oldest_unanswered_seconds = ledger.oldest_unanswered_seconds();
  load.busy_seconds = ledger.busy_seconds();
  load.prefill_seconds = ledger.prefill_seconds();
  load.decode_seconds = ledger.decode_seconds();
  load.speed = replica.speed;
  load.fallbacks = {{"kv_full", replica.kv_full}, {"unknown_prompt", replica.unknown_prompt}, {"panic", replica.panic}};
  return load;
}

std::optional<Moment> Pool::last_life(const ReplicaKey& key, Moment now) {
  const std::lock_guard lock(mutex_);
  Replica* const replica = find(key);
  return replica == nullptr ? std::nullopt : replica->ledger.last_life(latest(now));
}

std::uint32_t Pool::in_flight(const ReplicaKey& key) const {
  const std::lock_guard lock(mutex_);
  const Replica* const replica = find(key);
  return replica == nullptr ? 0 : replica->ledger.in_flight();
}

std::uint32_t Pool::in_flight() const {
  const std::lock_guard lock(mutex_);
  return in_flight_;
}

}  // namespace weir::balancer
